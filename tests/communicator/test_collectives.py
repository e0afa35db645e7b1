"""Broadcast, all-gather, reduce-scatter and barrier of a communicator, ranks as threads."""

import threading
import time

import pytest
import torch

import patallreduce as pat
from tests.threads import errors_on_threads, on_threads

LINK = pat.Link(20e-6, 1e9)


@pytest.fixture(params=[1, 2, 3, 5, 8])
def communicators(request):
    made = pat.Communicator.loopback(request.param, timeout_s=20, link=LINK)
    yield made
    on_threads(made, pat.Communicator.close)


def contribution(rank, elements, dtype=torch.float64):
    """Integers, so that every sum order gives the same."""
    return (torch.arange(elements) % 97 + 10 * rank).to(dtype)


@pytest.mark.parametrize("elements", [0, 1, 7, 20_000])
def test_reduce_takes_every_algorithm_and_root(communicators, elements):
    ranks = len(communicators)
    total = sum(contribution(rank, elements) for rank in range(ranks))

    def run(communicator):
        for name in pat.algorithms("reduce"):
            for root in {0, ranks - 1}:
                tensor = contribution(communicator.rank, elements)
                communicator.reduce(tensor, root, algorithm=name)
                is_root = communicator.rank == root
                own = total if is_root else contribution(communicator.rank, elements)
                assert tensor.equal(own), (name, root)

    on_threads(communicators, run)


def test_local_redirect_is_a_tree_for_ranks_that_arrive_together():
    communicators = pat.Communicator.loopback(8, timeout_s=5, link=LINK)

    def run(communicator):
        communicator.reduce(torch.ones(1000), algorithm="local_redirect_reduce")
        return communicator.stats()[-1]["call"]

    # A part's time, 20 us + 4000 bytes / 8 / 1 GB/s. Without it all would queue up at the root.
    assert all("segment_time_s 2.05e-05" in text for text in on_threads(communicators, run))
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("elements", [0, 1, 7, 20_000])
def test_broadcast(communicators, elements):
    ranks = len(communicators)

    def run(communicator):
        for name in pat.algorithms("broadcast"):
            for root in {0, ranks - 1}:
                tensor = contribution(communicator.rank, elements, torch.int32)
                work = communicator.broadcast(tensor, root, name, async_op=root > 0)
                if work is not None:
                    work.wait()
                assert tensor.equal(contribution(root, elements, torch.int32)), (name, root)

    on_threads(communicators, run)


@pytest.mark.parametrize("block", [0, 1, 3, 5000, 5003])
def test_all_gather(communicators, block):
    ranks = len(communicators)
    expected = torch.stack([contribution(rank, block) for rank in range(ranks)])

    def run(communicator):
        for name in pat.algorithms("all_gather"):
            tensor = torch.full((ranks, block), -1.0, dtype=torch.float64)
            tensor[communicator.rank] = contribution(communicator.rank, block)
            communicator.all_gather(tensor, name)
            assert tensor.equal(expected), name

    on_threads(communicators, run)


@pytest.mark.parametrize("op", ["sum", "max", "avg"])
@pytest.mark.parametrize("block", [0, 1, 3, 5000, 5003])
def test_reduce_scatter(communicators, block, op):
    ranks = len(communicators)
    given = torch.stack([contribution(rank, ranks * block) for rank in range(ranks)])
    result = {"sum": given.sum(0), "max": given.max(0).values, "avg": given.sum(0) / ranks}[op]

    def run(communicator):
        rank = communicator.rank
        own = slice(rank * block, (rank + 1) * block)
        for name in pat.algorithms("reduce_scatter"):
            tensor = given[rank].clone()
            communicator.reduce_scatter(tensor, op, name)
            torch.testing.assert_close(tensor[own], result[own])

    on_threads(communicators, run)


def test_nobody_leaves_a_barrier_before_all_have_come(communicators):
    ranks = len(communicators)
    come, lock = dict.fromkeys(pat.algorithms("barrier"), 0), threading.Lock()

    def run(communicator):
        for late, name in enumerate(pat.algorithms("barrier")):
            if communicator.rank == late % ranks:
                time.sleep(0.05)
            with lock:
                come[name] += 1
            communicator.barrier(name)
            assert come[name] == ranks, name

    on_threads(communicators, run)


def test_bad_arguments_are_named():
    communicators = pat.Communicator.loopback(2, timeout_s=5, link=LINK)

    def wrong(communicator, call):
        call(communicator)

    for call, said in [
        (lambda c: c.all_gather(torch.zeros(3)), "multiple of 2 elements, .* got 3 on rank"),
        (lambda c: c.reduce_scatter(torch.zeros(5)), "multiple of 2 elements, .* got 5 on rank"),
        (
            lambda c: c.reduce_scatter(torch.zeros(4, dtype=torch.int32), "avg"),
            "avg for a reduce_scatter of torch.int",
        ),
        (lambda c: c.broadcast(torch.zeros(1), 2), "root: expected 0 to 1, got 2 on rank"),
        (lambda c: c.broadcast(torch.zeros(1), 0, "ring"), "one of flat_broadcast, chain_broad"),
        (lambda c: c.barrier("ring"), "one of flat_barrier"),
    ]:
        for error in errors_on_threads(communicators, wrong, call):
            assert isinstance(error, ValueError)
            with pytest.raises(ValueError, match=said):
                raise error
    on_threads(communicators, pat.Communicator.close)


def every_collective_over_ucx(elements):
    """Asserts on every rank; root is rank 1."""
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        rank, ranks = communicator.rank, communicator.ranks
        given = torch.stack([contribution(r, ranks * elements) for r in range(ranks)])
        total, blocks = given.sum(0), given.view(ranks, ranks, elements)
        gathered = torch.stack([blocks[r, r] for r in range(ranks)]).flatten()
        own = slice(rank * elements, (rank + 1) * elements)
        for name in pat.algorithms("reduce"):
            tensor = given[rank].clone()
            communicator.reduce(tensor, 1, algorithm=name)
            assert tensor.equal(total if rank == 1 else given[rank]), name
        for name in pat.algorithms("broadcast"):
            tensor = given[rank].clone()
            communicator.broadcast(tensor, 1, name)
            assert tensor.equal(given[1]), name
        for name in pat.algorithms("all_gather"):
            tensor = given[rank].clone()
            communicator.all_gather(tensor, name)
            assert tensor.equal(gathered), name
        for name in pat.algorithms("reduce_scatter"):
            tensor = given[rank].clone()
            communicator.reduce_scatter(tensor, algorithm=name)
            assert tensor[own].equal(total[own]), name
        for name in pat.algorithms("barrier"):
            communicator.barrier(name)


@pytest.mark.parametrize("elements", [5, 50_000])
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_over_ucx(processes, ranks, elements):
    processes.run(ranks, every_collective_over_ucx, elements)
