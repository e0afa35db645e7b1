"""What goes wrong between ranks ends alike on all of them, by the deadline, never in a sum."""

import os
import time

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from tests.processes import LINK, RankDiedError
from tests.threads import errors_on_threads, on_threads

ONES = {"algorithm": "ring", "segments": 2, "timeout_s": 10}

# What rank 1 does differently, and what the error says of it and of the others.
MISMATCHES = {
    "shape": (lambda: torch.ones(8), {}, "8 elements of", "7 elements of"),
    "dtype": (lambda: torch.ones(7, dtype=torch.int32), {}, "of int32", "of float32"),
    "op": (lambda: torch.ones(7), {"op": "max"}, ", max,", ", sum,"),
    "algorithm": (lambda: torch.ones(7), {"algorithm": "slt"}, "slt with", "ring with"),
    "segments": (lambda: torch.ones(7), {"segments": 3}, "with 3 segments", "with 2 segments"),
    "arrivals": (lambda: torch.ones(7), {"arrivals_s": "late"}, "arrivals_s [", "2 segments"),
}


def call(communicator, odd_rank, kind, late_rank=-1):
    rank = communicator.rank
    tensor, arguments = torch.ones(7), dict(ONES)
    if rank == odd_rank:
        make, different, _, _ = MISMATCHES[kind]
        tensor, arguments = make(), arguments | different
        if "arrivals_s" in arguments:
            arguments["arrivals_s"] = [0.5] + [0.0] * (communicator.ranks - 1)
    if rank == late_rank:
        time.sleep(0.05)
    communicator.all_reduce(tensor, **arguments)


def assert_one_mismatch(errors, kind):
    assert all(type(error) is pat.MismatchError for error in errors), errors
    _, _, of_odd_rank, of_others = MISMATCHES[kind]
    for error in errors:
        assert of_odd_rank in str(error)
        assert of_others in str(error)
        assert "collective 0 differs between ranks: rank " in str(error)
    if len(errors) == 2:
        assert str(errors[0]) == str(errors[1])


@pytest.mark.parametrize("kind", MISMATCHES)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_different_arguments_end_on_every_rank(ranks, kind):
    for odd_rank in range(ranks):
        for late_rank in (-1, odd_rank):
            communicators = pat.Communicator.loopback(ranks, timeout_s=10)
            errors = errors_on_threads(communicators, call, odd_rank, kind, late_rank)
            assert_one_mismatch(errors, kind)
            for communicator in communicators:
                assert not communicator.usable
                with pytest.raises(pat.MismatchError, match="collective 0 differs"):
                    communicator.all_reduce(torch.ones(1))
                communicator.close()


def empty_on_rank_0(communicator):
    tensor = torch.ones(0 if communicator.rank == 0 else 7)
    with pytest.raises(pat.MismatchError, match=r"rank 0 called 0 elements.*called 7 elements"):
        communicator.all_reduce(tensor, algorithm="ring", segments=1)
    assert tensor.eq(1).all()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_an_empty_tensor_on_one_rank_is_a_mismatch(ranks):
    communicators = pat.Communicator.loopback(ranks, timeout_s=10, link=LINK)
    on_threads(communicators, empty_on_rank_0)
    on_threads(communicators, pat.Communicator.close)


def different_order(communicator):
    tensors = [torch.ones(7), torch.ones(1000)]
    if communicator.rank == 1:
        tensors.reverse()
    for tensor in tensors:  # the call itself raises once the failure is known
        with pytest.raises(pat.MismatchError, match=r"7 elements.*1000 el|1000 elements.*7 el"):
            communicator.all_reduce(tensor, algorithm="ring", async_op=True).wait()
    return [bool(tensor.eq(1).all()) for tensor in tensors]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_different_order_ends_on_every_rank(ranks):
    communicators = pat.Communicator.loopback(ranks, timeout_s=10, link=LINK)
    untouched = on_threads(communicators, different_order)
    assert all(all(row) for row in untouched), "no wrong sum"
    on_threads(communicators, pat.Communicator.close)


def mismatch_over_ucx(kind, odd_rank):
    """All fail, and a new communicator works."""
    with (
        pytest.raises(pat.MismatchError) as raised,  # other ranks may fail while this one starts
        pat.Communicator(timeout_s=10, link=LINK) as communicator,
    ):
        call(communicator, odd_rank, kind)
    dist.barrier()
    with pat.Communicator(timeout_s=10, link=LINK) as fresh:
        tensor = torch.ones(1000)
        fresh.all_reduce(tensor)
        assert tensor.eq(fresh.ranks).all()
    return raised.value


@pytest.mark.parametrize("kind", MISMATCHES)
@pytest.mark.parametrize("ranks", [2, 4])
def test_different_arguments_over_ucx(processes, ranks, kind):
    errors = processes.run(ranks, mismatch_over_ucx, kind, ranks // 2)
    assert_one_mismatch(errors, kind)


def without_rank(communicator, absent, algorithm, timeout_s):
    if communicator.rank != absent:
        communicator.all_reduce(torch.ones(1000), algorithm=algorithm, timeout_s=timeout_s)


ABSENT = [(2, algorithm) for algorithm in sorted(pat.algorithms())]
ABSENT += [(0, algorithm) for algorithm in ("ring", "slt_dynamic", "reproducible")]


@pytest.mark.parametrize(("absent", "algorithm"), ABSENT)
def test_a_rank_that_never_comes_is_named_by_the_deadline(absent, algorithm):
    communicators = pat.Communicator.loopback(4, timeout_s=10, link=LINK)
    start_s = time.monotonic()
    errors = errors_on_threads(communicators, without_rank, absent, algorithm, 0.5)
    assert time.monotonic() - start_s >= 0.5
    assert errors.pop(absent) is None
    for error in errors:
        assert type(error) is pat.TransportTimeout
        assert isinstance(error, TimeoutError)
        assert error.rank == absent
        assert "did not finish within 0.5 s on rank " in str(error)
        assert f"rank {absent} had not called it" in str(error)
        assert "1000 elements of float32" in str(error)
    # The one that did not come is told as soon as it does.
    told = f"within 0.5 s on rank .*rank {absent} had not called it"  # not after 10 s of its own
    with pytest.raises(pat.TransportTimeout, match=told):
        communicators[absent].all_reduce(torch.ones(1000), algorithm=algorithm)
    on_threads(communicators, pat.Communicator.close)


def never_comes_over_ucx(absent):
    # Long enough that a busy machine lets every engine answer in between.
    with pat.Communicator(timeout_s=2, link=LINK) as communicator:
        communicator.all_reduce(torch.ones(10), timeout_s=10)
        if communicator.rank != absent:
            with pytest.raises(pat.TransportTimeout, match=f"{absent} had not called it") as raised:
                communicator.all_reduce(torch.ones(10))
            assert raised.value.rank == absent
        dist.barrier()
        for async_op in (False, True):  # a dead communicator says so instead of trying
            with pytest.raises(pat.TransportTimeout, match=f"collective 1 .*{absent} had not"):
                communicator.all_reduce(torch.ones(10), async_op=async_op)
    make_and_use()


def make_and_use():
    with pat.Communicator(timeout_s=10, link=LINK) as communicator:
        tensor = torch.ones(3)
        communicator.all_reduce(tensor)
        assert tensor.eq(communicator.ranks).all()


@pytest.mark.parametrize("absent", [0, 2])
def test_a_rank_that_never_comes_over_ucx(processes, absent):
    processes.run(4, never_comes_over_ucx, absent)


def makes_none(absent, late):
    if dist.get_rank() == absent:
        time.sleep(4)  # in the process group
        return
    if dist.get_rank() == late:
        time.sleep(1)  # it still waits when the others have given up, and ended
    pat.Communicator(timeout_s=2, link=LINK)


@pytest.mark.parametrize("late", [None, 3])
def test_a_rank_that_makes_no_communicator_is_named(processes, late):
    outcomes = processes.outcomes(4, makes_none, 1, late)
    assert outcomes.pop(1) is None
    for error in (outcome.error for outcome in outcomes):
        assert type(error) is pat.TransportTimeout
        assert error.rank == 1
        assert "rank 1 made no communicator within 2.0 s" in str(error)


def tries_until_all_meet(late):
    if dist.get_rank() == late:
        time.sleep(2.2)
    for _ in range(20):
        try:
            make_and_use_within(0.7)
        except pat.TransportTimeout:
            continue
        return
    raise AssertionError("they never met")


def make_and_use_within(timeout_s):
    with pat.Communicator(timeout_s=timeout_s, link=LINK, monitor=False) as communicator:
        tensor = torch.ones(3)
        communicator.all_reduce(tensor, timeout_s=10)
        assert tensor.eq(communicator.ranks).all()


@pytest.mark.parametrize("late", [0, 2])
def test_ranks_that_failed_to_meet_try_again_and_meet(processes, late):
    processes.run(3, tries_until_all_meet, late)


def keys_left():
    store = dist.distributed_c10d._world.pg_map[dist.group.WORLD][1]
    counts = []
    for _ in range(3):
        make_and_use()
        dist.barrier()
        counts.append(store.num_keys())
        dist.barrier()
    return counts


def test_nothing_is_left_in_the_store_of_ranks_that_have_met(processes):
    for counts in processes.run(3, keys_left):
        assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize("timeout_s", [0.05, 0.1, 0.2])
def test_a_short_deadline_ends_a_quiet_wait(timeout_s):
    communicators = pat.Communicator.loopback(3, timeout_s=10, link=LINK, monitor=False)
    errors = errors_on_threads(communicators, lambda c: without_rank(c, 2, "ring", timeout_s))
    assert [type(error) for error in errors] == [pat.TransportTimeout] * 2 + [type(None)]
    assert all(f"within {timeout_s} s on rank" in str(error) for error in errors[:2])
    on_threads(communicators, pat.Communicator.close)


def test_different_deadlines_end_at_the_shortest():
    communicators = pat.Communicator.loopback(3, timeout_s=10, link=LINK)
    errors = errors_on_threads(
        communicators, lambda c: without_rank(c, 2, "ring", 0.3 if c.rank == 0 else 10)
    )
    assert [type(error) for error in errors] == [pat.TransportTimeout] * 2 + [type(None)]
    assert all("within 0.3 s on rank 0" in str(error) for error in errors[:2])
    on_threads(communicators, pat.Communicator.close)


def test_a_rank_that_closes_early_is_named():
    communicators = pat.Communicator.loopback(3, timeout_s=10, link=LINK)
    communicators[2].close()
    errors = errors_on_threads(
        communicators[:2], lambda c: c.all_reduce(torch.ones(10), algorithm="ring")
    )
    for error in errors:
        assert type(error) is pat.PeerLostError
        assert error.rank == 2
        assert "rank 2 closed its communicator after 0 collectives" in str(error)
    on_threads(communicators, pat.Communicator.close)


def leaves_with_an_error(odd_rank):
    with pat.Communicator(timeout_s=10, link=LINK) as communicator:
        if communicator.rank == odd_rank:
            raise KeyError("the reason")
        communicator.all_reduce(torch.ones(10))


def test_an_exception_inside_with_reaches_the_other_ranks(processes):
    errors = [failure.error for failure in processes.outcomes(3, leaves_with_an_error, 1)]
    assert type(errors.pop(1)) is KeyError
    for error in errors:
        assert type(error) is pat.TransportError
        assert error.rank == 1
        assert "rank 1 aborted: KeyError: 'the reason'" in str(error)


def dies(odd_rank):
    communicator = pat.Communicator(timeout_s=10, link=LINK)
    communicator.all_reduce(torch.ones(10))
    dist.barrier()
    if communicator.rank == odd_rank:
        os._exit(3)
    with pytest.raises(pat.PeerLostError) as raised:  # sooner than a timeout
        communicator.all_reduce(torch.ones(10))
    communicator.close()
    return raised.value.rank


@pytest.mark.parametrize("odd_rank", [0, 2])
def test_a_rank_that_dies_is_named(processes, odd_rank):
    outcomes = processes.outcomes(3, dies, odd_rank)
    died = outcomes.pop(odd_rank).error
    assert isinstance(died, RankDiedError)
    assert "exit code 3" in str(died)
    assert outcomes == [odd_rank] * 2
