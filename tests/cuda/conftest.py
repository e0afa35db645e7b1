"""The GPU kernels, on a GPU or, thread by thread, on the processor; or why a test cannot have them.

Tests without a GPU are skipped. A run that is there to test on a GPU sets FAIL_WITHOUT_CUDA=1: then
they fail, so that a broken driver does not pass for a missing one.
"""

import os
from pathlib import Path

import pytest
import torch

from patallreduce import _core
from patallreduce.gpu import cuda
from tests.cuda.patterns import name_of
from tests.fakes.libraries import build_fake_gpu


def refuse(reason):
    if os.environ.get("FAIL_WITHOUT_CUDA") == "1":
        pytest.fail(f"FAIL_WITHOUT_CUDA=1: {reason}")
    pytest.skip(reason)


@pytest.fixture(name="library", scope="session")
def library_fixture():
    """Path of the kernels, which need no GPU to be looked at."""
    path = cuda.library_path()
    if not Path(path).exists():
        refuse(f"GPU kernels are not built: no {path}")
    return path


@pytest.fixture(name="gpu", scope="session")
def gpu_fixture(library):
    try:
        device = _core.CudaReduction(library, 0)
    except _core.CudaError as error:
        refuse(f"no GPU: {error}")
    if not torch.cuda.is_available():
        refuse(f"torch {torch.__version__} sees no GPU: tests need its memory")
    return device


@pytest.fixture(name="fake_gpu", scope="session")
def fake_gpu_fixture(tmp_path_factory):
    """`fake_gpu("g++")`: path of a fake of the kernels' library, by "g++" or "nvcc"."""
    # One folder, of all packages of tests that take this fixture in all processes of this run.
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "fakes"
    folder.mkdir(exist_ok=True)
    return lambda compiler: build_fake_gpu(folder, compiler)


class Kernels:
    """Calls with arguments as tensors, on torch's current stream."""

    def __init__(self, gpu, device):
        self._gpu = gpu
        self.device = device

    def combine(self, out, also, received, held, op, scale=1.0):
        also_address = 0 if also is None else also.data_ptr()
        addresses = out.data_ptr(), also_address, received.data_ptr(), held.data_ptr()
        count, dtype = received.numel(), name_of(received.dtype)
        self._gpu.combine(*addresses, count, dtype, op, scale, self._stream())

    def scale_copy(self, out, source, scale):
        addresses = out.data_ptr(), source.data_ptr()
        dtype = name_of(source.dtype)
        self._gpu.scale_copy(*addresses, source.numel(), dtype, scale, self._stream())

    def divide(self, data, divisor):
        dtype = name_of(data.dtype)
        self._gpu.divide(data.data_ptr(), data.numel(), dtype, divisor, self._stream())

    def _stream(self):
        return torch.cuda.current_stream().cuda_stream if self.device == "cuda" else 0


@pytest.fixture(name="kernels", scope="session", params=["g++", "gpu"])
def kernels_fixture(request, fake_gpu):
    if request.param == "gpu":
        return Kernels(request.getfixturevalue("gpu"), "cuda")
    return Kernels(_core.CudaReduction(fake_gpu(request.param), 0, 2), "cpu")
