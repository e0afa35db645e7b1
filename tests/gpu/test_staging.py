"""An engine's collectives on a fake GPU's memory, staged and direct: sums, order and times."""

import itertools
import random
import time

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from tests.communicator.reference import DTYPES, OPS
from tests.gpu.staged import StagedRanks, Sums

# Not those whose schedules need a measured link, or peers that are known late: see below.
ALGORITHMS = sorted(set(pat.algorithms()) - {"clairvoyant", "slt_dynamic"})
both_ways = pytest.mark.parametrize("direct", [False, True], ids=["staged", "direct"])


@pytest.fixture(name="staged_of", scope="module")
def staged_of_fixture(libraries):
    """`staged_of(3, direct)`: three ranks, kept for the module."""
    before = libraries.count()
    kept = {}

    def staged_of(count, direct):
        if (count, direct) not in kept:
            kept[count, direct] = StagedRanks(libraries, count, direct)
        return kept[count, direct]

    yield staged_of
    for ranks in kept.values():
        ranks.close()
    assert libraries.count() == before, "streams, events or memory are left"


def run_all(ranks, all_sums):
    """All in flight at once, every rank in its own time; the results are taken as they come."""

    def one_rank(rank):
        staging = ranks.stagings[rank]
        tickets = [sums.submit(rank) for sums in all_sums]
        for sums, ticket in zip(all_sums, tickets, strict=True):
            told = staging.next_done(10.0)
            assert told is ticket
            sums.take(rank, told)
        assert staging.next_done(0.0) is None
        ranks.libraries.synchronise(ranks.consumers[rank])
        for ticket in tickets:
            staging.wait(ticket)
            assert 0 < ticket.arrival_s <= ticket.engine_ticket.arrival_s < ticket.finish_s

    ranks.each(one_rank)
    for sums in all_sums:
        sums.check()


@both_ways
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_algorithm_dtype_and_op(count, direct, staged_of):
    ranks, draw = staged_of(count, direct), random.Random(count)
    cases = list(itertools.product(DTYPES, OPS))
    draw.shuffle(cases)
    algorithms = itertools.cycle(ALGORITHMS)
    for first in range(0, len(cases), 8):
        all_sums = []
        for seed, (dtype, op) in enumerate(cases[first : first + 8]):
            algorithm = next(algorithms)
            elements = draw.choice([0, 1, 7, 1000, 5003])
            options = {"segments": draw.randint(1, max(min(elements, 3 * count), 1)), "seed": seed}
            if algorithm in {"slt", "prr"}:
                options["arrivals_s"] = [draw.choice([0.0, 0.5, 2.0]) for _ in range(count)]
            if algorithm == "prr":
                options["segment_time_s"] = 0.1
            all_sums.append(Sums(ranks, elements, dtype, op, algorithm, **options))
        run_all(ranks, all_sums)


@both_ways
def test_peers_that_are_known_late(direct, staged_of):
    ranks = staged_of(3, direct)
    options = {"dtype": torch.int64, "algorithm": "slt_dynamic", "segments": 5}
    run_all(ranks, [Sums(ranks, 3000 + n, **options) for n in range(6)])


@both_ways
def test_a_late_contribution_arrives_when_the_stream_has_made_it(direct, libraries):
    """The others' sum is there before; the hint says so, and the sum is in that order."""
    ranks = StagedRanks(libraries, 3, direct)
    sums = Sums(ranks, 60_000, algorithm="slt", segments=8, arrivals_s=[0.0, 3.0, 1.0])

    def one_rank(rank):
        ticket = sums.submit(rank, late_ms=200 if rank == 1 else 0)
        submitted_s = time.monotonic()
        if rank == 1:
            time.sleep(0.1)
            assert ticket.engine_ticket is None
            assert ticket.arrival_s == ticket.finish_s == 0
            # What the others have summed is already here.
            assert ranks.engines[1].scratch_peak_bytes >= sums.given[1].nbytes
            assert torch.all(sums.home[1] == 77)
        sums.take(rank, ticket)
        ranks.libraries.synchronise(ranks.consumers[rank])
        ranks.stagings[rank].wait(ticket)
        return ticket, ticket.arrival_s - submitted_s

    told = ranks.each(one_rank)
    ranks.close()

    sums.check()
    assert told[1][1] >= 0.19
    late_s = told[1][0].arrival_s
    assert told[0][0].arrival_s < late_s - 0.05
    assert told[2][0].arrival_s < late_s - 0.05
    assert min(ticket.finish_s for ticket, _ in told) > late_s


@both_ways
def test_calls_keep_the_order_of_submission(direct, staged_of, libraries):
    """On one rank the second is ready first, as is one of the processor's: they wait."""
    ranks = staged_of(2, direct)
    first, second = Sums(ranks, 500), Sums(ranks, 700, torch.float64)
    aside = libraries.new_stream()
    of_host = [torch.ones(900), torch.ones(900)]
    host_call = Sums(ranks, 900).call

    def one_rank(rank):
        late_ms = 80 if rank == 0 else 0
        tickets = first.submit(rank, late_ms=late_ms), second.submit(rank, stream=aside)
        on_host = ranks.engines[rank].begin(of_host[rank].data_ptr(), host_call, 10.0)
        for sums, ticket in zip((first, second), tickets, strict=True):
            sums.take(rank, ticket)
            assert ranks.stagings[rank].next_done(10.0) is ticket
        libraries.synchronise(ranks.consumers[rank])
        ranks.engines[rank].wait(on_host)
        return *tickets, on_host

    told = ranks.each(one_rank)
    libraries.end_stream(aside)

    first.check()
    second.check()
    assert all(each.eq(2).all() for each in of_host)
    for a, b, on_host in told:
        assert b.number == a.number + 1
        assert on_host.seq - 1 == b.engine_ticket.seq == a.engine_ticket.seq + 1
    if direct:  # copies to the host keep their order
        assert told[0][1].arrival_s < told[0][0].arrival_s


@both_ways
def test_nothing_is_made_anew_in_the_steady_state(direct, staged_of, libraries):
    ranks = staged_of(2, direct)
    sums = Sums(ranks, 3000, algorithm="slt", segments=4, arrivals_s=[1.0, 0.0])

    def counts(rank):
        staging = ranks.stagings[rank]
        for _ in range(50):
            home, stream = sums.home[rank].data_ptr(), ranks.producers[rank]
            staging.wait(staging.submit(home, sums.call, stream, 10.0, queued=False))
        return staging.events, staging.memory_bytes

    first, before = ranks.each(counts), libraries.count()
    for _ in range(6):
        assert ranks.each(counts) == first
    # What drains from a GPU's scratch while the next call begins may take one more piece.
    assert libraries.count() <= before + (8 if direct else 0)
    assert ranks.stagings[0].next_done(0.0) is None  # not queued


def test_pinned_memory_serves_other_sizes_too(staged_of):
    ranks = staged_of(1, direct=False)
    staging = ranks.stagings[0]

    def memory_after(count):
        sums = Sums(ranks, count)
        for _ in range(2):
            staging.wait(sums.run(0))
        sums.check()
        assert staging.next_done(1.0)
        assert staging.next_done(1.0)
        return staging.memory_bytes

    large = memory_after(100_000)
    assert large >= 400_000
    assert memory_after(60_000) == large
    assert large < memory_after(20_000) < 2 * large


def test_a_rank_that_has_no_gpu_yet_waits_for_its_own_call(libraries):
    """What the others announce before is not lost, and no error."""
    before = libraries.count()
    ranks = StagedRanks(libraries, 2, direct=False)
    call = Sums(ranks, 1000).call.carried_by("device")
    with pytest.raises(ValueError, match="rank 1: expected an engine that was given a GPU"):
        ranks.engines[1].submit(0, call, 1.0)
    direct = [None, None]
    direct[0] = _core.StagedCarrier(ranks.engines[0], libraries.gpu, 0, True)
    homes = [torch.full((1000,), rank + 1.0) for rank in range(2)]
    tickets = [direct[0].submit(homes[0].data_ptr(), call, 0, 10.0)]
    time.sleep(0.05)
    direct[1] = _core.StagedCarrier(ranks.engines[1], libraries.gpu, 0, True)
    tickets.append(direct[1].submit(homes[1].data_ptr(), call, 0, 10.0))
    for rank in range(2):
        direct[rank].wait(tickets[rank])
        assert torch.all(homes[rank] == 3)
    with pytest.raises(ValueError, match="rank 1: expected one GPU per communicator"):
        _core.StagedCarrier(ranks.engines[1], libraries.gpu, 0, True)
    for staging in direct:
        staging.close(5.0)
    ranks.close()
    assert libraries.count() == before
