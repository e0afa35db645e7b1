"""slt_dynamic: the chain grows in the order in which ranks really arrive."""

import random
import time

import pytest
import torch

import patallreduce as pat
from tests.processes import LINK
from tests.threads import on_threads

COUNT = 200_003
CALL = {"algorithm": "slt_dynamic", "segments": 16}


def loopback(ranks, **options):
    return pat.Communicator.loopback(ranks, timeout_s=20, link=LINK, monitor=False, **options)


def arrive_in_turn(communicators, order, pause_s=0.003):
    """Call rank by rank; return {rank: result}."""
    works, tensors = [], {}
    for rank in order:
        tensors[rank] = torch.full((COUNT,), float(rank + 1))
        works.append(communicators[rank].all_reduce(tensors[rank], async_op=True, **CALL))
        time.sleep(pause_s)
    for work in works:
        work.wait()
    return tensors


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_sums_are_right_in_whatever_order_ranks_arrive(ranks):
    communicators = loopback(ranks)
    choose = random.Random(ranks)
    for _ in range(6):
        order = choose.sample(range(ranks), ranks)
        tensors = arrive_in_turn(communicators, order)
        assert all(tensor.eq(ranks * (ranks + 1) / 2).all() for tensor in tensors.values())
    on_threads(communicators, pat.Communicator.close)


def test_the_sum_is_taken_in_the_order_of_arrival():
    """Added to 1e8 one by one the small numbers round away; their sum does not."""
    communicators = loopback(4)
    small, large = 3.0, 1e8  # float32 steps at 1e8 are 8
    for order, expected in [((1, 2, 3, 0), 1e8 + 8), ((0, 1, 2, 3), 1e8)]:
        works = []
        tensors = [torch.full((64,), large if rank == 0 else small) for rank in range(4)]
        for rank in order:
            works.append(communicators[rank].all_reduce(tensors[rank], async_op=True, **CALL))
            time.sleep(0.02)
        for work in works:
            work.wait()
        assert [tensor[0].item() for tensor in tensors] == [expected] * 4
    on_threads(communicators, pat.Communicator.close)


def test_the_last_rank_is_sent_the_sum_of_the_others_before_it_comes():
    communicators = loopback(4)
    message_bytes = COUNT * 4
    tensors = [torch.full((COUNT,), float(rank)) for rank in range(4)]
    works = [
        communicators[rank].all_reduce(tensors[rank], async_op=True, **CALL) for rank in (3, 0, 2)
    ]
    late = communicators[1]
    deadline_s = time.monotonic() + 10
    while late.session.engine.scratch_peak_bytes < message_bytes:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
    assert tensors[1].eq(1).all(), "its own memory is untouched until it comes"
    assert not any(work.is_completed() for work in works)
    late.all_reduce(tensors[1], **CALL)
    for work in works:
        work.wait()
    assert all(tensor.eq(6).all() for tensor in tensors)
    on_threads(communicators, pat.Communicator.close)


def many_at_once(communicator, seed):
    """Several in flight, among others, after random pauses; the number of wrong results."""
    choose = random.Random(seed)  # alike on all ranks
    pauses = random.Random(seed * 100 + communicator.rank)
    wrong = 0
    for _ in range(8):
        works = []
        for _ in range(choose.randint(1, 6)):
            count = choose.choice([0, 1, 5, 1000, 50_001])
            plan = {"algorithm": choose.choice(["slt_dynamic", "slt_dynamic", "ring"])}
            plan |= {"segments": choose.randint(1, max(1, min(count, 9)))}
            tensor = torch.full((count,), float(communicator.rank))
            time.sleep(pauses.choice([0, 0, 0.001, 0.004]))
            works.append((tensor, communicator.all_reduce(tensor, async_op=True, **plan)))
        expected = communicator.ranks * (communicator.ranks - 1) / 2
        for tensor, work in works:
            work.wait()
            wrong += not tensor.eq(expected).all()
    return wrong


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_several_in_flight_with_random_delays(ranks):
    communicators = loopback(ranks)
    assert on_threads(communicators, many_at_once, ranks) == [0] * ranks
    on_threads(communicators, pat.Communicator.close)


def over_ucx(seed):
    with pat.Communicator(timeout_s=20, link=LINK, monitor=False) as communicator:
        return many_at_once(communicator, seed)


def test_as_processes_over_ucx(processes):
    assert processes.run(4, over_ucx, 11) == [0] * 4


def test_a_rank_that_never_comes_is_named():
    communicators = pat.Communicator.loopback(3, timeout_s=0.4, link=LINK, monitor=False)
    works = [
        communicators[rank].all_reduce(torch.ones(9), async_op=True, **CALL | {"segments": 2})
        for rank in (0, 2)
    ]
    for work in works:
        with pytest.raises(pat.TransportTimeout, match="rank 1"):
            work.wait()
    on_threads(communicators, pat.Communicator.close)


def test_another_call_on_one_rank_is_a_mismatch():
    communicators = loopback(3)

    def call(communicator):
        count = 9 if communicator.rank != 2 else 8
        with pytest.raises(pat.MismatchError, match="rank 2 called 8 elements"):
            communicator.all_reduce(torch.ones(count), algorithm="slt_dynamic", segments=2)

    on_threads(communicators, call)
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("late", [0, 2], ids=["who gives places", "who gets one"])
def test_a_rank_that_only_sends_may_be_far_ahead(late):
    """What it tells of its place in a collective is there long before the late rank calls that."""

    def body(communicator):
        if communicator.rank == late:
            time.sleep(1)
        for _ in range(1100):
            communicator.broadcast(torch.ones(1), root=1, algorithm="flat_broadcast")
        tensor = torch.ones(64)
        communicator.all_reduce(tensor, **CALL)
        assert tensor.eq(3).all()

    communicators = loopback(3)
    on_threads(communicators, body)
    on_threads(communicators, pat.Communicator.close)
