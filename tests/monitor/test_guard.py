"""The guard: whatever plans are worth, a job runs nearly as fast as with the better way."""

import random

import pytest

from tests.monitor.guarded import (
    COMPUTE_S,
    LINK,
    PATTERNS,
    RANKS,
    Job,
    one_late,
    one_late_at_random,
    speeds,
    stalls,
)


@pytest.mark.parametrize("longer", [0.02, 0.15, 0.5, 1.0])
@pytest.mark.parametrize("lateness", PATTERNS)
def test_plans_that_lose_cost_next_to_nothing(lateness, longer):
    """As the guard promises, and a thousandth or two for the noise of this job."""
    plain_s = 0.1
    alone = Job(plain_s, plain_s, lateness).run(200)
    job = Job(plain_s + alone * longer, plain_s, lateness)
    assert job.run(200) <= alone * (1 + longer * (0.05 if longer > 0.1 else 0.08) + 0.002)
    assert sum(job.with_plans[10:]) <= 10


@pytest.mark.parametrize("lateness", [one_late, one_late_at_random, speeds])
def test_plans_that_win_are_kept(lateness):
    plain_s = 0.1
    alone = Job(plain_s, plain_s, lateness).run(200)
    always = Job(plain_s / 2, plain_s / 2, lateness).run(200)
    guarded = Job(plain_s / 2, plain_s, lateness).run(200)
    # Who is late at random is sometimes expected too late for a plan: not the guard's doing.
    unplanned = 0.05 if lateness is one_late_at_random else 0
    assert guarded <= always + (alone - always) * (0.1 + unplanned)


def test_plans_that_come_to_promise_far_more_are_tried_again():
    """Though as many ranks are late as before, and plans had been given up for hundreds more."""
    late_s = [0.05]
    job = Job(0.13, 0.1, lambda _: [0.0, late_s[0], 0.0, 0.0])
    job.run(120)
    assert any(job.with_plans[:40])
    assert not any(job.with_plans[-30:])
    late_s[0], job.planned_s = 0.08, 0.04
    job.run(80)
    assert sum(job.with_plans[-30:]) >= 20


def test_whom_a_plan_lets_go_early_counts():
    """Its all-reduces take as long, but the late rank waits for none of it: never given up."""
    job = Job(0.1, 0.1, one_late, freed_s=0.099)
    job.run(100)
    assert all(job.with_plans[10:])


def test_a_late_rank_is_served_from_the_first_iterations_on():
    job = Job(0.1, 0.1, one_late, freed_s=0.099)
    job.run(20)
    assert sum(job.with_plans) >= 14


@pytest.mark.parametrize(
    ("noise", "pause_s", "longer"),
    [
        (0.0, 0.0, 1.1),
        (0.0, 0.0, 1.25),
        (0.03, 0.0, 1.1),
        (0.03, 0.0, 1.25),
        (0.0, 3.0, 1.1),
        (0.0, 3.0, 1.25),
    ],
)
def test_plans_that_make_ranks_compute_longer_are_given_up(longer, noise, pause_s):
    """Though their all-reduces take less, and the late rank waits for none of it."""
    draw = random.Random(7)

    def lateness(iteration):
        return [(0.3 * (rank == 1) + COMPUTE_S) * noise * draw.gauss(0, 1) + 0.3 * (rank == 1)
                for rank in range(RANKS)]  # fmt: skip

    alone = Job(0.1, 0.1, lateness, pause_s=pause_s).run(200)
    job = Job(0.09, 0.1, lateness, longer=longer, pause_s=pause_s)
    assert job.run(200) <= 1.03 * alone
    assert sum(job.with_plans[-100:]) <= 10


@pytest.mark.parametrize("longer", [1.1, 1.25])
@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("every", [2, 3, 5, 7])
def test_pauses_do_not_hide_that_ranks_compute_longer(every, first, longer):
    """Whichever iterations they fall into: the first ones, half of all, or a trial's."""
    draw = random.Random(7)
    job = Job(
        0.09,
        0.1,
        lambda _: [0.01 * draw.gauss(0, 1) + late_s for late_s in one_late(0)],
        longer=longer,
        pause_s=3.0,
        pauses=lambda iteration: iteration % every == first % every,
    )
    job.run(200)
    assert sum(job.with_plans) <= 40
    assert sum(job.with_plans[-100:]) <= 10


def test_shorter_iterations_are_no_reason_where_all_reduces_take_longer():
    """How long ranks compute may have other causes."""
    job = Job(0.12, 0.1, one_late, longer=0.9)
    job.run(200)
    assert sum(job.with_plans[-100:]) <= 10


def test_plans_that_win_often_and_lose_more_now_and_then_are_given_up():
    """Half of the iterations tell of what they win only."""
    alone = Job(0.1, 0.1, one_late).run(200)
    job = Job(0.09, 0.1, one_late)
    ends_s = []
    for iteration in range(200):
        job.planned_s = 0.3 if iteration % 6 == 5 else 0.09
        ends_s.append(job.iterate())
    assert ends_s[-1] - ends_s[0] <= 1.03 * 199 * alone
    assert sum(job.with_plans[-100:]) <= 10


def test_ranks_that_compute_for_different_times_are_no_reason():
    draw = random.Random(3)
    job = Job(0.05, 0.1, lambda _: [draw.uniform(0, 0.1) for _ in range(RANKS)])
    job.run(200)
    assert job.leader.pace(1)["plain"]["iterations"] <= 8


def test_a_pause_of_all_ranks_says_nothing():
    """Such as for a checkpoint: in whichever way it falls."""
    loses = Job(0.2, 0.1, one_late, pause_s=3.0)
    loses.run(200)
    assert sum(loses.with_plans[10:]) <= 10
    wins = Job(0.05, 0.1, one_late, pause_s=3.0)
    wins.run(200)
    assert sum(wins.with_plans[10:]) >= 180


def test_computations_that_grow_are_compared_with_those_near_by():
    """Plans win a little in each iteration, and are not blamed for what grows anyhow."""
    job = Job(
        0.08, 0.1, lambda i: [0.004 * i + 0.3 * (rank == 1) for rank in range(RANKS)], freed_s=0.02
    )
    job.run(400)
    assert sum(job.with_plans[10:]) >= 380


@pytest.mark.parametrize("first", [14, 26, 42])
def test_computations_that_get_longer_are_not_blamed_on_plans(first):
    """A trial compares iterations with those right before, not with those of the trial before."""
    draw = random.Random(first)
    job = Job(
        0.08, 0.1, lambda i: [0.2 * (i >= first) + draw.uniform(0, 0.2) for _ in range(RANKS)]
    )
    job.run(120)
    assert sum(job.with_plans) >= 80


def test_a_plan_of_nothing_comes_before_anybody_asks():
    job = Job(0.2, 0.1, stalls)
    job.run(60)
    assert not job.with_plans[-1]
    start_s = max(job.start_s)
    plans = []
    for rank in range(RANKS):
        at = (rank, 1, job.iteration, job.start_s[rank], job.finish_s[rank])
        plans.append(job.leader.started(*at, start_s))
    assert [plan is not None for plan in plans] == [False] * (RANKS - 1) + [True]
    assert plans[-1].buckets == []


def test_arrivals_are_predicted_without_plans_too():
    job = Job(0.2, 0.1, stalls)
    job.run(60)
    record = job.leader.records()[-2]
    assert not job.with_plans[-2]
    for bucket in record["buckets"]:
        assert bucket["predicted_s"] == pytest.approx(bucket["arrival_s"], abs=0.4)


def test_another_regime_is_measured_anew():
    """Plans lose while all are equal, and win once a rank is late."""
    late_from = 100

    def lateness(iteration):
        return one_late(iteration) if iteration >= late_from else stalls(iteration)

    job = Job(0.2, 0.1, lateness)
    job.run(late_from - 1)
    assert sum(job.with_plans[10:]) <= 8
    job.planned_s = 0.02
    job.run(60)
    assert sum(job.with_plans[-60:]) >= 45


def with_a_late_rank(planned_s, spread_s, first, late_s, falls=1.0):
    """Whether each iteration has a plan, from the first on in which rank 1 is late, too.

    Of its lateness `falls` remains from one iteration to the next, but never less than half of it.
    """
    draw = random.Random(first)

    def lateness(iteration):
        share = max(falls ** (iteration - first), 0.5) if iteration >= first else 0
        late = [late_s * share * (rank == 1) for rank in range(RANKS)]
        return [spread_s * draw.random() + rank_s for rank_s in late]

    job = Job(planned_s, 0.1, lateness)
    job.run(first - 1)
    assert sum(job.with_plans[-20:]) <= 2
    job.planned_s = 0.02
    job.run(40)
    return job.with_plans[first:]


@pytest.mark.parametrize("late_s", [0.12, 0.3, 1.0])
@pytest.mark.parametrize("first", [20, 40, 101])
def test_plans_come_soon_after_a_rank_has_become_late(first, late_s):
    """They promise nothing while all are equal."""
    with_plans = with_a_late_rank(0.11, 0.005, first, late_s)
    assert with_plans.index(True) <= 3
    assert sum(with_plans) >= 33


@pytest.mark.parametrize("late_s", [0.3, 0.6])
@pytest.mark.parametrize("first", [40, 101])
def test_who_is_late_twice_is_late_though_the_second_time_by_less(first, late_s):
    assert with_a_late_rank(0.2, 0.005, first, late_s, falls=0.97).index(True) <= 3


@pytest.mark.parametrize("late_s", [0.6, 1.0])
@pytest.mark.parametrize("spread_s", [0.1, 0.2])
@pytest.mark.parametrize("first", [40, 70, 101])
def test_plans_given_up_come_back_soon_after_a_rank_has_become_late(first, spread_s, late_s):
    """What trials before have cost may have to be earned first."""
    with_plans = with_a_late_rank(0.2, spread_s, first, late_s)
    assert with_plans.index(True) <= 11
    assert sum(with_plans) >= 28


def test_more_late_ranks_are_another_regime():
    """The last rank is as late as before; plans lose while it is the only one, and win then."""
    late_s = [0.0, 0.3, 0.0, 0.0]
    job = Job(0.2, 0.1, lambda _: late_s)
    job.run(150)
    assert sum(job.with_plans[-100:]) <= 8
    late_s[2], job.planned_s = 0.3, 0.02
    job.run(30)
    assert sum(job.with_plans[-15:]) >= 10


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lateness_on_the_border_of_two_regimes_is_in_one(seed):
    """Each regime would have trials of its own."""
    draw = random.Random(seed)
    border_s = 2**2.5 * 0.25 * 2 * 2**20 / LINK.bytes_per_s
    job = Job(0.2, 0.1, lambda _: [0.0, border_s * draw.uniform(0.8, 1.2), 0.0, 0.0])
    job.run(200)
    assert sum(job.with_plans[10:]) <= 6


def test_times_that_make_no_sense_do_no_harm():
    job = Job(0.2, 0.1, stalls)
    job.run(30)
    for rank in range(RANKS):
        job.finish_s[rank] = [float("nan"), 1e300]
    assert job.run(30) > 0


def test_the_first_iteration_of_another_way_does_not_count():
    """It also shows what was before: here everything is slower once, and plans are always."""
    job = Job(0.15, 0.1, one_late, change_s=0.2)
    job.run(100)
    assert sum(job.with_plans[-50:]) <= 4


def test_the_paces_are_told():
    job = Job(0.2, 0.1, one_late)
    assert job.leader.pace(1) is None
    job.run(60)
    pace = job.leader.pace(1)
    assert set(pace) == {"planned", "plain"}
    assert pace["plain"]["overhead_s"] == pytest.approx(0.1, rel=0.05)
    assert pace["planned"]["overhead_s"] == pytest.approx(0.2, rel=0.05)
    assert pace["plain"]["iterations"] > pace["planned"]["iterations"] >= 2


@pytest.mark.parametrize("seed", range(8))
def test_ranks_that_become_unsteady_are_measured_anew(seed):
    """Nobody is late again and again, before and after; plans win once all are late at random."""
    draw = random.Random(seed)
    spread_s = [0.06]
    job = Job(0.11, 0.1, lambda _: [draw.uniform(0, spread_s[0]) for _ in range(RANKS)])
    job.run(400)
    assert sum(job.with_plans[-100:]) <= 20
    spread_s[0], job.planned_s = 0.4, 0.05
    job.run(40)
    assert sum(job.with_plans[-25:]) >= 15
