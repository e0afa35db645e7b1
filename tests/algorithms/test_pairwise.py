"""The pairwise exchanges: what every rank ends with, small messages and large ones."""

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.tensors import dtype_of
from tests.threads import on_threads

SUM = _core.Op.__members__["sum"]


def exchange(communicators, tensors, algorithm, segments):
    def run(communicator):
        tensor = tensors[communicator.rank].view(-1)
        call = _core.Call(tensor.numel(), dtype_of(tensor), SUM, -1, algorithm, segments, [], 0.0)
        communicator.session.submit(tensor, call).get_future().wait()

    on_threads(communicators, run)
    on_threads(communicators, pat.Communicator.close)


def value(giver, taker, elements):
    return torch.arange(elements) + 1000.0 * (100 * giver + taker)


@pytest.mark.parametrize("elements", [16, 50_000])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 9])
def test_all_to_all(ranks, elements):
    communicators = pat.Communicator.loopback(ranks, monitor=False)
    tensors = [torch.zeros(2, ranks, elements) for _ in range(ranks)]
    for rank, tensor in enumerate(tensors):
        for other in range(ranks):
            tensor[0, other] = value(rank, other, elements)
    exchange(communicators, tensors, "pairwise_all_to_all", 2 * ranks)
    for rank, tensor in enumerate(tensors):
        for other in range(ranks):
            assert tensor[0, other].equal(value(rank, other, elements)), "what it gave is left"
            if other != rank:
                assert tensor[1, other].equal(value(other, rank, elements))


@pytest.mark.parametrize("elements", [16, 50_000])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 9])
def test_all_gather(ranks, elements):
    communicators = pat.Communicator.loopback(ranks, monitor=False)
    tensors = [torch.zeros(ranks, elements) for _ in range(ranks)]
    for rank, tensor in enumerate(tensors):
        tensor[rank] = value(rank, 0, elements)
    exchange(communicators, tensors, "pairwise_all_gather", ranks)
    for tensor in tensors:
        assert tensor.equal(torch.stack([value(rank, 0, elements) for rank in range(ranks)]))


def test_an_all_to_all_in_odd_pieces_is_refused():
    with pytest.raises(pat.ScheduleError, match="3 ranks: expected a multiple of 6 segm.* got 9"):
        pat.schedule("pairwise_all_to_all", 3, 9, collective="all_to_all")


def place(rank, ranks, rounds):
    """Of a rank's block in a shift."""
    reach = rounds + 1
    if ranks < 2 * reach:
        return rank
    alike = ranks - ranks % reach
    return rank % reach if rank < alike else reach + rank - alike


@pytest.mark.parametrize(
    ("name", "ranks", "elements"),
    [("shift", ranks, n) for ranks in (1, 2, 3, 4, 5, 6, 7, 8, 10) for n in (16, 50_000)]
    + [("long_shift", ranks, 16) for ranks in (1, 2, 3, 8, 16, 70)],
)
def test_shift(name, ranks, elements):
    if name == "shift":
        _, blocks, rounds, _ = _core.metering_shift(ranks, 1)
    else:
        _, blocks, rounds, _ = _core.metering_long_shift(ranks)
    communicators = pat.Communicator.loopback(ranks, monitor=False)
    tensors = [torch.zeros(blocks, elements) for _ in range(ranks)]
    for rank, tensor in enumerate(tensors):
        tensor[place(rank, ranks, rounds)] = value(rank, 0, elements)
    exchange(communicators, tensors, name, blocks)
    for rank, tensor in enumerate(tensors):
        for distance in range(min(rounds, ranks - 1) + 1):
            before = (rank - distance) % ranks
            assert tensor[place(before, ranks, rounds)].equal(value(before, 0, elements))


def test_a_shift_in_odd_pieces_is_refused():
    with pytest.raises(pat.ScheduleError, match="9 ranks: expected a multiple of 5 segm.* got 9"):
        pat.schedule("shift", 9, 9, collective="shift")
