"""A barrier between iterations: whom a plan lets go early gains nothing."""

from dataclasses import replace

import pytest

from benchmarks.jobs import auto, job
from benchmarks.jobs.cells import NOBODY, Cell

CALLS = Cell(8, 1, 1 << 20, 100e-6, 25e6, 1e-3, NOBODY, 0.0, 0.01, 1, barrier=True)


def pace_over_own(cell, iterations, underpriced=""):
    """Of the iterations from the fourth on, over those without plans; and what ran how often."""
    computes_s = cell.computes_s(iterations)
    ends, ran = auto.ends_s(cell, computes_s, underpriced=underpriced)
    own = job.ends_s(cell, computes_s, lambda on, _: on.own)
    return job.pace_s(ends, 3) / job.pace_s(own, 3), ran


@pytest.mark.parametrize("latency_s", [100e-6, 10e-3])
@pytest.mark.parametrize("buckets", [1, 4])
def test_with_a_barrier_a_job_is_as_fast_as_without_plans(latency_s, buckets):
    of = replace(CALLS, latency_s=latency_s, buckets=buckets)
    ratio, ran = pace_over_own(replace(of, bucket_elements=of.bucket_elements // buckets), 12)
    assert ratio <= 1.02, ran


@pytest.mark.parametrize("late_s", [0.2, 0.3])
def test_a_late_rank_is_planned_for_beside_a_barrier(late_s):
    ratio, ran = pace_over_own(replace(CALLS, compute_s=0.1, pattern="fixed", delay_s=late_s), 30)
    assert ratio < 0.85, ran


def test_who_would_be_let_go_early_is_not_what_counts_beside_a_barrier():
    """All at once is better than one after the other: 0.98 where the barrier is not seen."""
    of = replace(CALLS, compute_s=0.1, pattern="moving", delay_s=0.05)
    ratio, ran = pace_over_own(of, 12)
    assert ratio < 0.96, ran


@pytest.mark.parametrize("late_s", [0.3, 0.5])
def test_the_guard_does_not_take_for_won_what_a_barrier_undoes(late_s):
    """Chains let the late rank go first, but take twice their price: longer than what they save."""
    of = replace(CALLS, compute_s=0.4, pattern="fixed", delay_s=late_s)
    ratio, ran = pace_over_own(of, 60, underpriced="slt")
    assert ran["slt"] >= 3
    assert ratio <= 1.015, ran


@pytest.mark.parametrize(("late_s", "most"), [(0.3, 0.945), (0.5, 0.93)])
def test_ranks_that_are_late_at_random_do_not_hide_a_barrier(late_s, most):
    """Their starts show it; 0.97 and 0.95 where only arrivals are looked at."""
    of = replace(CALLS, compute_s=0.1, pattern="uniform", delay_s=late_s)
    ratio, ran = pace_over_own(of, 40)
    assert ratio <= most, (ratio, ran)


def test_no_way_is_kept_beside_a_barrier_for_having_been_taken_before():
    """Direct exchange is best for a rank that is little late, a chain for one that is later."""
    iterations = 20
    little, much = (
        replace(CALLS, compute_s=0.4, pattern="fixed", delay_s=late_s).computes_s(iterations)
        for late_s in (0.1, 0.3)
    )
    _, ran = auto.ends_s(replace(CALLS, compute_s=0.4), little + much)
    assert ran["direct_exchange"] >= iterations // 2, ran
    assert ran["slt"] >= iterations // 2, ran
