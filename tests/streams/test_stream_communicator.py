"""The communicator over played libraries: tensors are in host memory, torch has no stream there."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.stream_communicator import StreamCommunicator, nccl_path

RANKS = 3


@pytest.fixture(name="each")
def each_fixture():
    with ThreadPoolExecutor(RANKS) as threads:
        yield lambda function: list(threads.map(function, range(RANKS)))


def make(libraries, store, rank, timeout_s=20.0):
    return StreamCommunicator(
        store,
        rank,
        RANKS,
        torch.device("cpu"),
        timeout_s=timeout_s,
        kernels=libraries.gpu,
        nccl=libraries.nccl,
    )


@pytest.fixture(name="communicators")
def communicators_fixture(libraries, each):
    store = dist.HashStore()
    made = each(lambda rank: make(libraries, store, rank))
    yield made
    each(lambda rank: made[rank].close())


@pytest.mark.parametrize("algorithm", ["ring", "slt", "reproducible"])
@pytest.mark.parametrize("arrivals_s", [None, [0.0, 2.0, 1.0]])
def test_sums_and_means_in_place(communicators, each, algorithm, arrivals_s):
    given = [torch.arange(100.0).view(10, 10) * (rank + 1) for rank in range(RANKS)]
    whole = [torch.full((7,), 10 * rank + 3, dtype=torch.int64) for rank in range(RANKS)]

    def one_rank(rank):
        tensor, counts = given[rank].clone(), whole[rank].clone()
        options = {"algorithm": algorithm, "segments": 5, "arrivals_s": arrivals_s}
        first = communicators[rank].all_reduce(tensor, "sum", **options)
        second = communicators[rank].all_reduce(counts, "avg", **options)
        first.wait()
        second.synchronize()
        assert second.is_completed()
        return tensor, counts

    for tensor, counts in each(one_rank):
        assert torch.equal(tensor, given[0] * 6)
        assert counts.tolist() == [13] * 7


def test_a_mean_of_floats_is_scaled_once(communicators, each):
    def one_rank(rank):
        tensor = torch.full((50,), float(rank))
        communicators[rank].all_reduce(tensor, "avg", "slt").synchronize()
        return tensor

    for tensor in each(one_rank):
        assert torch.allclose(tensor, torch.ones(50))


def test_tensors_that_cannot_be_used_are_refused(communicators):
    communicator = communicators[1]
    with pytest.raises(TypeError, match="expected a tensor on cpu, got meta on rank 1"):
        communicator.all_reduce(torch.ones(2, device="meta"))
    with pytest.raises(ValueError, match=r"contiguous tensor, got strides \(1, 4\) on rank 1"):
        communicator.all_reduce(torch.ones(4, 4).t())
    with pytest.raises(
        TypeError, match="expected a dtype of float32, .*, got torch.bool on rank 1"
    ):
        communicator.all_reduce(torch.ones(2, dtype=torch.bool))
    with pytest.raises(pat.ScheduleError, match="nobody"):
        communicator.all_reduce(torch.ones(2), algorithm="nobody")


def test_a_rank_that_does_not_call(communicators, each):
    def one_rank(rank):
        if rank == 2:
            return
        work = communicators[rank].all_reduce(torch.ones(30), timeout_s=0.2)
        with pytest.raises(pat.TransportTimeout, match="did not end within 0.2 s"):
            work.synchronize()
        with pytest.raises(pat.TransportTimeout, match="did not end within 0.2 s"):
            communicators[rank].all_reduce(torch.ones(30))

    each(one_rank)


def test_a_rank_that_is_missing_at_the_start(libraries):
    with pytest.raises(dist.DistStoreError):
        make(libraries, dist.HashStore(), 1, timeout_s=0.1)
    with pytest.raises(pat.TransportTimeout, match="connection of all ranks"):
        make(libraries, dist.HashStore(), 0, timeout_s=0.1)


def test_where_nccl_is_looked_for():
    assert Path(nccl_path()).name.startswith("libnccl.so")
