"""What the core does around the kernels: facts of devices, and errors. Needs no GPU."""

import pytest
import torch

from patallreduce import _core
from patallreduce.commands import info


@pytest.fixture(name="fake")
def fake_fixture(fake_gpu):
    return fake_gpu("g++")


@pytest.fixture(name="ones")
def ones_fixture():
    return torch.ones(100)


def test_a_device_is_described(fake):
    gpu = _core.CudaReduction(fake, 0)

    assert _core.cuda_device_count(fake) == 2
    assert (gpu.device, gpu.name, gpu.capability, gpu.multiprocessors) == (0, "Fake", (9, 0), 10)


@pytest.mark.parametrize("wrong", [-1, 2, 1000])
def test_a_device_that_is_not_there_is_refused(fake, wrong):
    with pytest.raises(_core.CudaError, match=rf"expected a device of 0 to 1, got {wrong}$"):
        _core.CudaReduction(fake, wrong)


def test_a_device_without_kernels_is_named_with_what_was_built(fake):
    message = r"device 1: Relic of sm_30 with kernels built for this processor: .*NoKernelImage"
    with pytest.raises(_core.CudaError, match=message) as raised:
        _core.CudaReduction(fake, 1)

    assert raised.value.device == 1


def test_a_grid_of_no_blocks_is_refused(fake):
    with pytest.raises(ValueError, match="at least 1 block per multiprocessor, got 0"):
        _core.CudaReduction(fake, 0, 0)


def test_a_failed_launch_names_device_and_work(fake, ones):
    gpu, addresses = _core.CudaReduction(fake, 0), [ones.data_ptr()] * 4
    ending = r": fake error \(cudaErrorLaunchFailure\)$"
    with pytest.raises(_core.CudaError, match="device 0: avg of 100 float32" + ending) as raised:
        gpu.combine(*addresses, 100, "float32", "avg", 1.0, stream=1)
    with pytest.raises(_core.CudaError, match="copy of 100 float64 times 0.5" + ending):
        gpu.scale_copy(*addresses[:2], 100, "float64", 0.5, stream=1)
    with pytest.raises(_core.CudaError, match="division of 100 int32 by 3" + ending):
        gpu.divide(addresses[0], 100, "int32", 3, stream=1)

    assert raised.value.device == 0


@pytest.mark.parametrize("which", range(4))
def test_addresses_between_elements_are_refused(fake, ones, which):
    """On a device they would end all use of CUDA in the process."""
    addresses = [ones.data_ptr() + (argument == which) for argument in range(4)]
    with pytest.raises(_core.CudaError, match="expected float32 at a multiple of 4 bytes, got"):
        _core.CudaReduction(fake, 0).combine(*addresses, 1, "float32", "sum")

    with pytest.raises(ValueError, match="a divisor >= 1, got 0"):
        _core.CudaReduction(fake, 0).divide(0, 0, "int32", 0)


def test_info_lists_devices_that_work_and_why_others_do_not(fake, monkeypatch):
    monkeypatch.setattr("patallreduce.gpu.cuda.library_path", lambda: fake)

    lines = info.report().splitlines()

    told = [line.split(maxsplit=3) for line in lines if line.startswith("CUDA device")]
    assert told[0] == ["CUDA", "device", "0", "Fake, sm_90, 10 multiprocessors"]
    assert told[1][3].startswith("not usable: CUDA device 1: Relic of sm_30")
