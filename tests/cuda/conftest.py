"""The GPU kernels, on a GPU or played on the processor; or why a test cannot have them.

Tests without a GPU are skipped. A run that is there to test on a GPU sets FAIL_WITHOUT_CUDA=1: then
they fail, so that a broken driver does not pass for a missing one.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from patallreduce import _core, cuda
from tests.cuda.patterns import DTYPES, OPS, name_of

HERE = Path(__file__).parent
NVCC = os.environ.get("PATALLREDUCE_NVCC", "nvcc")
# Strict aliasing is off because 16 bytes of anything are moved as words, as on the GPU.
COMPILERS = {
    "g++": ["g++", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC"],
    "nvcc": [NVCC, "-x", "cu", "-O2", "-Xcompiler=-ffp-contract=off,-fno-strict-aliasing,-fPIC"],
}


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


class OnGpu:
    """Calls on torch's current stream, with arguments as tensors."""

    device = "cuda"

    def __init__(self, gpu):
        self._gpu = gpu

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

    @staticmethod
    def _stream():
        return torch.cuda.current_stream().cuda_stream


class OnProcessor:
    """The same: every thread's code, compiled for this processor, one thread after the other."""

    device = "cpu"
    threads = 640  # few enough that each has several vectors, and some none

    def __init__(self, path):
        library = ctypes.CDLL(path)
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self._combine, self._scale_copy = library.combine, library.scale_copy
        self._divide = library.divide
        ending = [ctypes.c_double, size]
        self._combine.argtypes = [*[pointer] * 4, size, number, number, *ending]
        self._scale_copy.argtypes = [pointer, pointer, size, number, *ending]
        self._divide.argtypes = [pointer, size, number, ctypes.c_int64, size]

    def combine(self, out, also, received, held, op, scale=1.0):
        addresses = out.data_ptr(), also if also is None else also.data_ptr()
        addresses = *addresses, received.data_ptr(), held.data_ptr()
        dtype = DTYPES.index(received.dtype)
        self._combine(*addresses, received.numel(), dtype, OPS.index(op), scale, self.threads)

    def scale_copy(self, out, source, scale):
        dtype = DTYPES.index(source.dtype)
        addresses = out.data_ptr(), source.data_ptr()
        self._scale_copy(*addresses, source.numel(), dtype, scale, self.threads)

    def divide(self, data, divisor):
        dtype = DTYPES.index(data.dtype)
        self._divide(data.data_ptr(), data.numel(), dtype, divisor, self.threads)


@pytest.fixture(name="kernels", scope="session", params=["g++", "gpu"])
def kernels_fixture(request, tmp_path_factory):
    if request.param == "gpu":
        return OnGpu(request.getfixturevalue("gpu"))
    command = COMPILERS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    path = tmp_path_factory.mktemp("threads") / "threads.so"
    source = HERE / "threads_on_host.cpp"
    options = ["-std=c++17", "-shared", f"-I{HERE.parents[1] / 'csrc'}", "-o", str(path)]
    subprocess.run([*command, *options, str(source)], check=True, timeout=120)
    return OnProcessor(str(path))
