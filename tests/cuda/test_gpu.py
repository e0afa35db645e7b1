"""What only a GPU shows: large buckets, streams, graphs, errors of devices."""

import pytest
import torch

from patallreduce import _core
from tests.cuda.patterns import DTYPES, name_of


def combine(gpu, out, also, received, held, *, op="sum", stream=None):
    stream = stream or torch.cuda.current_stream()
    addresses = (tensor.data_ptr() for tensor in (out, also, received, held))
    dtype = name_of(out.dtype)
    gpu.combine(*addresses, out.numel(), dtype, op, 1.0, stream.cuda_stream)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_64_mib(gpu, dtype):
    """More than all threads do at once. torch's own sum is the reference: no NaNs here."""
    count = (64 << 20) // dtype.itemsize
    received, held = (
        torch.randint(0, 100, (count,), dtype=torch.uint8, device="cuda").to(dtype)
        for _ in range(2)
    )
    out, also = (torch.full_like(received, -1 if dtype != torch.uint8 else 255) for _ in range(2))

    combine(gpu, out, also, received, held)

    assert torch.equal(out, received + held)
    assert torch.equal(also, out)


def test_work_is_queued_in_the_order_of_its_stream_and_the_host_goes_on(gpu):
    stream = torch.cuda.Stream()
    received, held = torch.zeros(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    out, also = torch.full_like(held, torch.nan), torch.full_like(held, torch.nan)
    # All once before: to load a kernel CUDA may wait for the device.
    combine(gpu, out.clone(), also.clone(), received, held)
    received.fill_(0.0)
    assert out[:8].isnan().all().item()
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()

    with torch.cuda.stream(stream):
        torch.cuda._sleep(1_000_000_000)  # clock cycles: about half a second
        received.fill_(2.0)
        combine(gpu, out, also, received, held, stream=stream)
        after = out.clone()
    still_busy = not stream.query()
    untouched = out[:8].isnan().all().item()  # on the default stream, which waits for nobody
    torch.cuda.synchronize()

    assert still_busy, "the host waited for the device"
    assert untouched, "the kernel ran on another stream"
    for tensor in (out, also, after):
        assert torch.equal(tensor, torch.full_like(held, 3.0))


def test_a_captured_graph_replays_the_kernel(gpu):
    received, held = torch.ones(5000, device="cuda"), torch.ones(5000, device="cuda")
    out, also = torch.zeros_like(held), torch.zeros_like(held)
    combine(gpu, out.clone(), also.clone(), received, held)  # loaded, which is no part of a graph
    torch.cuda.synchronize()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        combine(gpu, out, also, received, held)
    received.fill_(5.0)
    graph.replay()
    torch.cuda.synchronize()

    assert torch.equal(out, torch.full_like(held, 6.0))


def test_the_device_is_described(gpu):
    properties = torch.cuda.get_device_properties(0)

    assert gpu.name == properties.name
    assert gpu.capability == (properties.major, properties.minor)
    assert gpu.multiprocessors == properties.multi_processor_count


def test_another_device_stays_current(gpu, library):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    other = _core.CudaReduction(library, 1)
    ones = torch.ones(100, device="cuda:1")

    other.scale_copy(ones.data_ptr(), ones.data_ptr(), 100, "float32", 3.0)

    assert torch.cuda.current_device() == 0
    assert torch.equal(ones.cpu(), torch.full((100,), 3.0))
