"""Contributions that do not come, ranks that do not, and calls that make no sense."""

import os
import signal
import threading
import time

import pytest

import patallreduce as pat
from patallreduce import _core
from tests.gpu.staged import StagedRanks, Sums


@pytest.fixture(name="ranks", params=[False, True], ids=["staged", "direct"])
def ranks_fixture(libraries, request):
    before = libraries.count()
    made = StagedRanks(libraries, 3, request.param)
    yield made
    made.close(5.0)
    assert libraries.count() == before, "streams, events or memory are left"


def raised(function, kind=pat.TransportError):
    with pytest.raises(kind) as caught:
        function()
    return caught.value


def waits(ranks, rank, ticket, kind=pat.TransportError):
    """Return the one error that wait, join and check raise; next_done hands the ticket out."""
    staging = ranks.stagings[rank]
    error = raised(lambda: staging.wait(ticket), kind)
    for function in (
        lambda: staging.join(ticket, ranks.consumers[rank]),
        lambda: staging.has_result(ticket, 0.0),
        ticket.check,
    ):
        assert str(raised(function, kind)) == str(error)
    assert ticket.finish_s > 0
    return error


def test_a_contribution_that_never_comes_is_its_own_ranks_fault(ranks):
    ranks.libraries.sleep(ranks.producers[2], 900)
    all_sums = [Sums(ranks, 3000), Sums(ranks, 100, algorithm="slt")]

    def one_rank(rank):
        tickets = [sums.submit(rank, timeout_s=0.25) for sums in all_sums]
        errors = [waits(ranks, rank, ticket, pat.TransportTimeout) for ticket in tickets]
        for ticket in tickets:
            assert ranks.stagings[rank].next_done(1.0) is ticket
        untouched = all_sums[0].home[2].eq(77).all().item()
        return errors, untouched

    told = ranks.each(one_rank)

    assert "rank 2's own contribution to collective 0 (3000 elements" in str(told[2][0][0])
    assert "has not come within 0.25 s" in str(told[2][0][0])
    for errors, untouched in told:
        assert [error.rank for error in errors] == [2, 2]
        assert len({str(error) for error in errors}) == 1
        assert untouched, "they are told before the stream gets there"
    ticketless = Sums(ranks, 10)
    assert str(raised(lambda: ticketless.submit(0))) == str(told[0][0][0])


def test_the_one_that_holds_up_the_others_is_named(ranks):
    """Of two contributions the deadline of the second passes, and the first has not come."""
    ranks.libraries.sleep(ranks.producers[0], 500)
    first, second = Sums(ranks, 30), Sums(ranks, 40)
    ticket = first.submit(0, timeout_s=20.0)
    other = second.submit(0, timeout_s=0.1, stream=ranks.consumers[0])

    error = waits(ranks, 0, other, pat.TransportTimeout)

    assert "rank 0's own contribution to collective 0 (30 elements" in str(error)
    assert str(waits(ranks, 0, ticket, pat.TransportTimeout)) == str(error)


def test_a_silent_rank_ends_everything_on_all_others_by_the_deadline(ranks):
    all_sums = [Sums(ranks, 3000) for _ in range(3)]

    def one_rank(rank):
        if rank == 1:
            return None
        tickets = [sums.submit(rank, timeout_s=0.3) for sums in all_sums]
        return [waits(ranks, rank, ticket, pat.TransportTimeout) for ticket in tickets]

    told = ranks.each(one_rank)

    for rank in (0, 2):
        assert len({str(error) for error in told[rank]}) == 1
        assert told[rank][0].rank == 1
        assert "rank 1" in str(told[rank][0])


def test_abort_ends_what_is_in_flight_on_all_ranks(ranks):
    """What comes, what runs, and what is submitted later."""
    sums, late = Sums(ranks, 3000), Sums(ranks, 10)

    def one_rank(rank):
        if rank == 2:
            time.sleep(0.1)
            ranks.stagings[2].abort("enough")
            return [raised(lambda: sums.submit(2))]
        tickets = [sums.submit(rank), late.submit(rank, late_ms=200)]
        return [waits(ranks, rank, ticket) for ticket in tickets]

    told = [error for errors in ranks.each(one_rank) for error in errors]

    assert {str(error) for error in told} == {"rank 2 aborted: enough"}
    assert {error.rank for error in told} == {2}


def test_what_was_there_before_a_failure_stays_right(ranks):
    done, stuck = Sums(ranks, 3000), Sums(ranks, 20)
    all_have_it = threading.Barrier(3)

    def one_rank(rank):
        staging = ranks.stagings[rank]
        first = done.submit(rank)
        staging.wait(first)
        all_have_it.wait(10)
        if rank == 0:
            staging.abort("no more")
        else:
            raised(lambda: staging.wait(stuck.submit(rank)))
        staging.wait(first)
        assert staging.has_result(first, 0.0)
        done.take(rank, first)
        ranks.libraries.synchronise(ranks.consumers[rank])

    ranks.each(one_rank)

    done.check()


def test_an_error_of_cuda_ends_all_ranks_with_its_text(ranks):
    sums = Sums(ranks, 3000)
    tickets = {rank: sums.submit(rank) for rank in (0, 2)}
    no_stream = ranks.libraries.new_stream()
    ranks.libraries.end_stream(no_stream)

    with pytest.raises(_core.CudaError, match="fake error") as caught:
        ranks.stagings[1].submit(sums.home[1].data_ptr(), sums.call, no_stream, 5.0)

    assert caught.value.device == 0
    for rank, ticket in tickets.items():
        error = waits(ranks, rank, ticket)
        assert error.rank == 1
        assert str(error) == f"rank 1: {caught.value}"


def test_ranks_that_disagree_fail(ranks):
    """Of three that differ, two may find it at once: not all need to be told of one pair."""
    all_sums = [Sums(ranks, 3000 + rank) for rank in range(3)]
    told = ranks.each(
        lambda rank: waits(ranks, rank, all_sums[rank].submit(rank), pat.MismatchError)
    )

    assert all("collective 0 differs between ranks: rank" in str(error) for error in told)


def test_staged_and_direct_do_not_mix(libraries):
    ranks = [StagedRanks(libraries, 2, direct) for direct in (False, True)]
    mixed = [Sums(ranks[0], 100), Sums(ranks[1], 100)]
    staging = _core.StagedCarrier(ranks[0].engines[1], libraries.gpu, 0, True)
    tickets = [
        mixed[0].submit(0, timeout_s=5.0),
        staging.submit(mixed[1].home[1].data_ptr(), mixed[1].call, 0, 5.0),
    ]
    error = raised(lambda: ranks[0].stagings[0].wait(tickets[0]), pat.MismatchError)
    assert "carried by device" in str(error)
    raised(lambda: staging.wait(tickets[1]), pat.MismatchError)
    staging.close(1.0)
    for each in ranks:
        each.close(1.0)


def test_calls_that_make_no_sense_are_refused_and_nothing_fails(ranks):
    staging, stream = ranks.stagings[0], ranks.producers[0]
    sums = Sums(ranks, 7)
    home = sums.home[0].data_ptr()
    with pytest.raises(ValueError, match="rank 0: expected memory for 7 elements, got none"):
        staging.submit(0, sums.call, stream, 1.0)
    unknown = _core.Call(7, _core.Dtype.float32, _core.Op.sum, -1, "nothing", 1, [], 0.0)
    with pytest.raises(pat.ScheduleError, match="nothing"):
        staging.submit(home, unknown, stream, 1.0)
    ranks.libraries.capture(stream)
    try:
        with pytest.raises(ValueError, match="rank 0: a CUDA graph is being made"):
            staging.submit(home, sums.call, stream, 1.0)
    finally:
        ranks.libraries.capture(None)

    ranks.each(sums.run)
    sums.check()


def test_closing_waits_for_what_is_in_flight(ranks):
    sums = Sums(ranks, 3000)
    tickets = [sums.submit(rank, late_ms=50) for rank in range(3)]

    ranks.each(lambda rank: ranks.stagings[rank].close(5.0))

    for rank, ticket in enumerate(tickets):
        ticket.check()
        assert ticket.finish_s > 0
        assert ranks.stagings[rank].next_done(1.0) is ticket
        assert ranks.stagings[rank].next_done(1.0) is None
        ranks.stagings[rank].wait(ticket)
    sums.seen = sums.home
    sums.check()
    with pytest.raises(pat.TransportError, match="rank 0: the communicator is closed"):
        Sums(ranks, 10).submit(0)


def test_closing_gives_up_in_the_end(ranks):
    sums = Sums(ranks, 3000)
    ticket = sums.submit(0)
    started_s = time.monotonic()

    ranks.stagings[0].close(0.2)

    assert time.monotonic() - started_s >= 0.2
    assert "rank 0 closed its communicator with a collective pending" in str(raised(ticket.check))


@pytest.mark.parametrize("way", ["wait", "join"])
def test_waiting_can_be_interrupted(ranks, way):
    ticket = Sums(ranks, 3000).submit(0)
    staging = ranks.stagings[0]
    waiting = {
        "wait": lambda: staging.wait(ticket),
        "join": lambda: staging.join(ticket, ranks.consumers[0]),
    }
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        waiting[way]()
    assert not staging.has_result(ticket, 0.0)
    staging.abort("interrupted")
