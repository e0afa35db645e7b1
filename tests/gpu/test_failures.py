"""Ranks that do not come, connections that break, calls that make no sense."""

import time

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from tests.gpu.ranks import Bucket, Ranks


@pytest.fixture(name="ranks")
def ranks_fixture(libraries):
    made = Ranks(libraries, 3)
    yield made
    made.close(1.0)


def bucket_of(ranks, lanes=1):
    return Bucket(pat.schedule("ring", ranks.count, 6), 60, torch.float32, "sum", 1, lanes)


def raised(function, kind=pat.TransportError):
    with pytest.raises(kind) as caught:
        function()
    return caught.value


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_silent_rank_ends_everything_on_all_others_by_the_deadline(ranks, lanes):
    buckets = [bucket_of(ranks, lanes) for _ in range(4)]

    def one_rank(rank):
        if rank == 1:
            return None
        started_s = time.monotonic()
        tickets = [bucket.submit(ranks, rank, timeout_s=0.3) for bucket in buckets]
        errors = [
            raised(lambda ticket=ticket: ranks.executors[rank].wait(ticket), pat.TransportTimeout)
            for ticket in tickets
        ]
        assert time.monotonic() - started_s >= 0.3
        return errors

    told = ranks.each(one_rank)

    for rank in (0, 2):
        assert len({str(error) for error in told[rank]}) == 1
        assert "collective 0 did not end within 0.3 s" in str(told[rank][0])
        assert f"rank {rank} waits in collective 0, stage" in str(told[rank][0])


@pytest.mark.parametrize("lanes", [1, 3])
def test_the_only_peer_that_can_be_to_blame_is_named(libraries, lanes):
    ranks = Ranks(libraries, 2)
    try:
        ticket = bucket_of(ranks, lanes).submit(ranks, 0, timeout_s=0.1)
        error = raised(lambda: ranks.executors[0].wait(ticket), pat.TransportTimeout)
        assert error.rank == 1
        assert str(error).endswith("for rank 1")
    finally:
        ranks.close(1.0)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_contribution_that_never_comes_is_its_own_ranks_fault(ranks, lanes):
    ranks.libraries.sleep(ranks.producers[2], 1500)
    bucket = bucket_of(ranks, lanes)

    def one_rank(rank):
        ticket = bucket.submit(ranks, rank, timeout_s=0.2)
        return raised(lambda: ranks.executors[rank].wait(ticket), pat.TransportTimeout)

    told = ranks.each(one_rank)

    assert "rank 2's own contribution has not come" in str(told[2])
    assert told[2].rank == 2


def test_what_was_there_before_a_failure_stays_right(ranks):
    done, stuck = bucket_of(ranks), bucket_of(ranks)

    def one_rank(rank):
        executor = ranks.executors[rank]
        first = done.submit(ranks, rank)
        executor.wait(first)
        if rank == 0:
            return
        second = stuck.submit(ranks, rank, timeout_s=0.1)
        raised(lambda: executor.wait(second))
        executor.wait(first)
        executor.join(first, ranks.consumers[rank])
        raised(lambda: executor.join(second, ranks.consumers[rank]))

    ranks.each(one_rank)

    assert torch.equal(done.home, done.expected())


@pytest.mark.parametrize("lane", [0, 1])
def test_an_error_that_nccl_finds_comes_before_the_deadline(ranks, lane):
    bucket = bucket_of(ranks)
    ticket = bucket.submit(ranks, 2, timeout_s=30)
    ranks.libraries.break_connection(ranks.unique_ids[lane], 2)

    error = raised(lambda: ranks.executors[2].wait(ticket))

    assert not isinstance(error, pat.TransportTimeout)
    assert str(error) == "NCCL: rank 2: messages: remote process exited (fake)"
    again = raised(lambda: bucket.submit(ranks, 2))
    assert str(again) == str(error)
    assert str(raised(ranks.executors[2].check)) == str(error)


def test_ranks_that_do_not_agree_on_sizes_fail(libraries):
    ranks = Ranks(libraries, 2)
    buckets = [Bucket(pat.schedule("ring", 2), 20 + n, torch.float32, "sum", 1) for n in (0, 10)]

    def one_rank(rank):
        def result():  # it may fail while it is submitted
            ranks.executors[rank].wait(buckets[rank].submit(ranks, rank, timeout_s=2.0))

        return raised(result)

    told = ranks.each(one_rank)
    ranks.close(1.0)

    assert any("fake error" in str(error) for error in told)


def test_abort_ends_what_is_in_flight(ranks):
    ticket = bucket_of(ranks).submit(ranks, 0)

    ranks.executors[0].abort("enough")

    assert str(raised(lambda: ranks.executors[0].wait(ticket))) == "rank 0: aborted: enough"


def test_a_rank_that_is_missing_at_the_start(libraries):
    unique_ids = [_core.nccl_unique_id(libraries.nccl) for _ in range(2)]
    before = libraries.count()

    with pytest.raises(
        pat.TransportTimeout, match="rank 0: connection of all ranks: not all ranks"
    ):
        _core.StreamExecutor(libraries.gpu, libraries.nccl, 0, 0, 2, unique_ids, 0.05)

    assert libraries.count() == before


def test_connecting_waits_for_all(ranks):
    ranks.each(lambda rank: ranks.executors[rank].connect(10.0))
    with pytest.raises(
        pat.TransportTimeout, match=r"rank 0: not all ranks connected within 0.05 s"
    ):
        ranks.executors[0].connect(0.05)


def test_closing_gives_everything_back(libraries):
    before = libraries.count()
    ranks = Ranks(libraries, 2)
    bucket = bucket_of(ranks)
    ranks.each(lambda rank: ranks.executors[rank].wait(bucket.submit(ranks, rank)))
    assert libraries.count() > before
    ranks.close()
    ranks.executors[0].close(1.0)

    assert libraries.count() == before
    with pytest.raises(pat.TransportError, match="rank 0: the communicator is closed"):
        ranks.executors[0].submit(bucket.programs[0], 0, 0, "float32", "sum", 0, 1.0)


def test_closing_waits_for_what_drains_and_gives_up_in_the_end(libraries):
    ranks = Ranks(libraries, 2)
    before = libraries.count()
    bucket_of(ranks).submit(ranks, 0)
    started_s = time.monotonic()
    ranks.executors[0].close(0.2)

    assert time.monotonic() - started_s >= 0.2
    assert libraries.count() < before
    ranks.close(0.1)


def test_events_are_used_again(ranks):
    bucket = bucket_of(ranks)

    def one_rank(rank):
        executor = ranks.executors[rank]
        for _ in range(30):
            executor.wait(bucket.submit(ranks, rank))
        return executor.events

    one = len(bucket.programs[0].stages)
    assert max(ranks.each(one_rank)) < 4 * 2 * one


def test_programs_and_calls_that_do_not_fit_are_refused(ranks):
    executor, producer = ranks.executors[0], ranks.producers[0]
    program = bucket_of(ranks).programs

    def submit(program, op="sum", stream=producer):
        executor.submit(program, 0, 0, "float32", op, stream, 1.0)

    with pytest.raises(ValueError, match="a program of rank 0 of 3, got one of rank 1 of 3"):
        submit(program[1])
    with pytest.raises(ValueError, match="rank 0: avg of float32 needs a program with scales = 1"):
        submit(program[0], op="avg")
    with pytest.raises(ValueError, match="rank 0: expected memory for 7 elements, got none"):
        executor.submit(program[0], 0, 7, "float32", "sum", producer, 1.0)
    schedule = pat.schedule("ring", 3)
    with pytest.raises(
        ValueError, match="rank 0: expected a program of at most 3 lanes, got one of 4"
    ):
        submit(_core.StreamProgram(schedule, 0, lanes=4))
    ranks.libraries.capture(producer)
    with pytest.raises(ValueError, match="rank 0: a CUDA graph is being made"):
        submit(program[0])
    ranks.libraries.capture(None)
    executor.check()  # refused, not failed


def test_a_stream_that_is_none_fails_as_cuda_does(ranks):
    with pytest.raises(_core.CudaError, match="device 0: .*fake error"):
        ranks.executors[0].submit(bucket_of(ranks).programs[0], 0, 0, "float32", "sum", 1, 1.0)


def test_nccl_that_is_not_there_is_named_with_the_way_to_get_it(libraries):
    with pytest.raises(pat.TransportError, match=r"cannot open /nowhere/nccl\.so.*torch for CUDA"):
        _core.nccl_library("/nowhere/nccl.so")
    with pytest.raises(pat.TransportError, match="has no ncclGetVersion; expected NCCL 2.14"):
        _core.nccl_library(libraries.gpu)
    assert _core.nccl_library(libraries.nccl) == (libraries.nccl, "2.27.3")
    with pytest.raises(ValueError, match="unique id: expected 128 bytes, got 3"):
        _core.StreamExecutor(libraries.gpu, libraries.nccl, 0, 0, 1, [b"abc"], 1.0)
    with pytest.raises(ValueError, match="streams: expected lanes, got none"):
        _core.StreamExecutor(libraries.gpu, libraries.nccl, 0, 0, 1, [], 1.0)
