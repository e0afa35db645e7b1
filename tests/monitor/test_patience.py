"""How long the leader waits for more before it plans, and when it plans ahead."""

import itertools
import random
from collections import Counter

import pytest

from patallreduce import Link
from tests.monitor.replay import LINK, SIZES, SLOW, Job, last_in_chain, only

RANKS = 4


def first_asks(job, computes_s):
    """Ranks start the next iteration, make no progress, and the first one arrives.

    Returns when it asks and the reports that follow.
    """
    reports = []
    job.iterate(computes_s, fractions=(), told=reports)
    asked = next(i for i, (_, kind, _, _) in enumerate(reports) if kind == "asked")
    assert job.tell(reports[: asked + 1], job.iteration - 1) == []
    return reports[asked][0], reports[asked + 1 :]


def test_who_asks_waits_for_half_of_the_ranks():
    job = Job(5, patience_s_per_byte=1 / LINK.bytes_per_s)
    computes_s = [0.10, 0.11, 0.12, 0.13, 0.14]
    job.iterate(computes_s, fractions=())
    _, reports = first_asks(job, computes_s)
    kind, rank, _ = job.tell(reports, job.iteration - 1)[0]
    assert (kind, rank) == ("asked", 2)


def test_where_somebody_is_late_each_time_all_others_may_ask_first():
    """Another one each time, so that nobody knows who before the others are there."""
    job = Job(6, patience_s_per_byte=1 / LINK.bytes_per_s)
    for iteration in range(20):
        late = iteration % 6
        computes_s = [0.10 + 0.005 * rank + 0.5 * (rank == late) for rank in range(6)]
        kind, rank, _ = job.iterate(computes_s, fractions=())[0]
    assert (kind, rank) == ("asked", 5), "the last of those that are not late"


def test_two_who_ask_wait_no_longer_than_one_transfer():
    """The first alone waits longer: it has nobody to exchange data with."""
    job = Job(6, patience_s_per_byte=1 / LINK.bytes_per_s)
    transfer_s = sum(elements * size for elements, size in SIZES) / LINK.bytes_per_s
    computes_s = [0.60, 0.65, 0.9, 0.9, 0.9, 0.9]  # in doubt by a tenth, as nothing is proven
    job.iterate(computes_s, fractions=())
    at_s, reports = first_asks(job, computes_s)
    assert job.leader.overdue(at_s + 0.99 * 0.05) is None
    second = next(i for i, (_, kind, _, _) in enumerate(reports) if kind == "asked")
    assert job.tell(reports[: second + 1], job.iteration - 1) == []
    at_s += 0.05
    assert job.leader.overdue(at_s + 0.99 * transfer_s) is None
    assert job.leader.overdue(at_s + 1.01 * transfer_s) is not None


def test_who_asks_alone_waits_no_longer_than_four_transfers():
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    transfer_s = sum(elements * size for elements, size in SIZES) / LINK.bytes_per_s
    computes_s = [3.0, 4.5, 4.5, 4.5]
    job.iterate(computes_s, fractions=())
    at_s, _ = first_asks(job, computes_s)
    assert job.leader.overdue(at_s + 3.99 * transfer_s) is None
    assert job.leader.overdue(at_s + 4.01 * transfer_s) is not None


def test_who_asks_waits_no_longer_than_predictions_may_be_wrong():
    drawn = random.Random(4)
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    noisy = [[late_s + drawn.uniform(0, 2e-3) for late_s in SLOW] for _ in range(41)]
    for computes_s in noisy[:40]:
        job.iterate(computes_s, fractions=())
    at_s, _ = first_asks(job, noisy[40])
    assert job.leader.overdue(at_s + 5e-3) is not None


def test_who_reports_no_progress_and_arrives_as_before_is_planned_for_ahead():
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    for _ in range(5):
        job.iterate(SLOW, fractions=())
    for _ in range(20):
        kind, rank, plan = only(job.iterate(SLOW, fractions=()))
        assert (kind, rank) == ("arrived", 2)
        assert plan.iteration == job.iteration  # which has not begun yet
        assert last_in_chain(plan) == 2


def test_pauses_that_differ_for_all_ranks_alike_put_nothing_in_doubt():
    """As of collectives that are called now and then."""
    drawn = random.Random(5)
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    kinds = []
    for _ in range(30):
        job.now_s += drawn.uniform(0, 1)
        kinds += [kind for kind, *_ in job.iterate(SLOW, fractions=())]
    assert set(kinds[10:]) == {"arrived"}


@pytest.mark.parametrize(("latency_s", "due"), [(50e-6, "asked"), (25e-3, "arrived")])
def test_what_is_in_doubt_by_less_than_an_answer_takes_is_planned_ahead(latency_s, due):
    drawn = random.Random(5)
    job = Job(RANKS, link=Link(latency_s, 25e6, 5e9), patience_s_per_byte=1 / 25e6)
    noisy = ([late_s + drawn.uniform(0, 4e-3) for late_s in SLOW] for _ in range(30))
    kinds = [kind for computes_s in noisy for kind, *_ in job.iterate(computes_s, fractions=())]
    assert set(kinds[10:]) == {due}


def test_progress_is_waited_for_however_sure_the_forecast_is():
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    kinds = [kind for _ in range(30) for kind, *_ in job.iterate(SLOW)]
    assert "arrived" not in kinds


@pytest.mark.parametrize(
    ("latency_s", "way_s", "ahead"),
    [(50e-6, 1e-4, False), (40e-3, 1e-4, True), (50e-6, 40e-3, True)],
)
def test_progress_that_is_answered_too_late_is_not_waited_for(latency_s, way_s, ahead):
    """Of ranks that compute for 100 ms, a quarter of which passes before they tell of any.

    Some are farther off than the link says.
    """
    job = Job(RANKS, link=Link(latency_s, 25e6), patience_s_per_byte=1 / 25e6, way_s=way_s)
    kinds = [kind for _ in range(30) for kind, *_ in job.iterate(SLOW)]
    assert (set(kinds[10:]) == {"arrived"}) == ahead
    assert ("arrived" in kinds) == ahead


def test_that_there_will_be_no_plan_is_told_before_anybody_asks():
    """However much is in doubt of who comes first."""
    drawn = random.Random(5)
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    told = Counter()
    for _ in range(60):
        computes_s = [drawn.uniform(0.1, 0.11) for _ in range(RANKS)]
        for kind, _, plan in job.iterate(computes_s, fractions=()):
            told[kind, bool(plan.buckets)] += 1
    assert told["arrived", False] > 40
    assert told["arrived", True] == 0


def test_what_moves_half_of_the_ranks_alike_moves_the_others():
    """All pause for half a second less than usual: nobody of them is late."""
    job = Job(8, patience_s_per_byte=1 / LINK.bytes_per_s)
    drawn = random.Random(6)
    made_due_by = []
    for pause_s in (1.0, 1.1, 1.0, 0.5, 1.0):
        computes_s = [pause_s + drawn.uniform(0, 5e-3) for _ in range(8)]
        made_due_by.append(job.iterate(computes_s, fractions=())[0][0])
    assert made_due_by[3:] == ["asked", "asked"]
    for record in job.leader.records()[3:]:
        predicted_s = record["buckets"][0]["predicted_s"]
        assert max(predicted_s) - min(predicted_s) < 0.02


def test_who_is_late_is_so_after_a_longer_pause_too():
    """All pause for seconds more than usual; rank 3 is late by half a second, as ever."""
    job = Job(8, patience_s_per_byte=1 / LINK.bytes_per_s)
    drawn = random.Random(6)
    for pause_s in (0.1, 0.1, 0.1, 0.1, 3.0):
        computes_s = [pause_s + drawn.uniform(0, 5e-3) for _ in range(8)]
        computes_s[3] += 0.5
        job.iterate(computes_s, fractions=())
    predicted_s = job.leader.records()[-1]["buckets"][0]["predicted_s"]
    others_s = [at_s for rank, at_s in enumerate(predicted_s) if rank != 3]
    assert 0.4 < predicted_s[3] - max(others_s) < 0.6


def test_who_asks_waits_no_longer_than_plans_promise():
    """Ranks compute as long as each other, but for a tenth by chance."""
    drawn = random.Random(2)
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    looks = 0
    for iteration in range(150):
        computes_s = [drawn.uniform(0.3, 0.33) for _ in range(RANKS)]
        for kind, rank, _ in job.iterate(computes_s, fractions=()):
            if iteration >= 20 and kind == "asked":
                looks += 1
                assert rank == computes_s.index(min(computes_s))
    assert looks >= 2


def test_where_plans_promise_nothing_an_empty_one_comes_before_anybody_asks():
    """But for few iterations, ever fewer, which look again."""
    job = Job(4)
    for _ in range(8):
        job.iterate([0.1] * 4)
    made_due_by = [[kind for kind, _, _ in job.iterate([0.1] * 4)] for _ in range(200)]
    looked = [n for n, kinds in enumerate(made_due_by) if kinds != ["started"]]
    apart = [later - n for n, later in itertools.pairwise(looked)]
    assert apart == sorted(apart)
    assert apart[-1] == 64


def test_a_rank_that_is_late_after_a_long_calm_is_answered_within_ten_iterations():
    job = Job(4, patience_s_per_byte=1 / LINK.bytes_per_s)
    for _ in range(150):
        job.iterate([0.1] * 4)
    late = [0.1, 0.1, 0.4, 0.1]
    planned = [bool(plan.buckets) for _ in range(20) for *_, plan in job.iterate(late)]
    assert all(planned[10:])
