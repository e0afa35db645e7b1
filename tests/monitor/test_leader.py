"""The leader as a state machine: when it decides, for what, and what never disturbs it."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patallreduce import Link, _core
from tests.monitor.replay import LINK, SIZES, Job, leader

RANKS = 4
SLOW = [0.1, 0.1, 0.5, 0.1]  # rank 2, by ten transfers of the first bucket


def only(plans):
    assert len(plans) == 1
    return plans[0]


def last_in_chain(plan):
    """The rank that the first bucket's schedule puts last; None for a schedule without order."""
    _, _, algorithm, _, arrivals_s = plan.buckets[0]
    return arrivals_s.index(max(arrivals_s)) if algorithm == "slt" else None


def test_the_first_to_ask_makes_the_plan_due_and_nobody_else():
    job = Job(RANKS)
    for longer_s in (0, 0.02, 0.05, 0.01):
        iteration = job.iteration
        kind, rank, plan = only(job.iterate([0.4, 0.3 + longer_s, 0.1, 0.2], fractions=()))
        assert (kind, rank) == ("asked", 2)
        assert (plan.loop, plan.iteration) == (1, iteration)


def test_all_usual_edges_make_the_plan_due_before_anybody_asks():
    """Rank 1's last edge is the last of all, and it still comes before rank 0 arrives."""
    job = Job(RANKS)
    computes_s = [0.40, 0.42, 0.41, 0.40]
    only(job.iterate(computes_s))
    for _ in range(3):
        kind, rank, _ = only(job.iterate(computes_s))
        assert (kind, rank) == ("edge", 1)
        assert job.leader.records()[-1]["edges"] == RANKS


def test_a_rank_without_its_usual_edges_is_not_waited_for_when_another_asks():
    job = Job(RANKS)
    for _ in range(3):
        job.iterate(SLOW)
    kind, _, plan = only(job.iterate(SLOW, silent=[2]))
    assert kind == "asked"
    assert last_in_chain(plan) == 2, "history says that it is late"
    assert job.leader.records()[-1]["edges"] == RANKS - 1


def test_a_late_rank_is_learned_and_a_moved_one_learned_again():
    job = Job(RANKS)
    plans = [only(job.iterate(SLOW))[2] for _ in range(4)]
    assert plans[0].buckets == []  # nothing is known yet
    assert [last_in_chain(plan) for plan in plans[2:]] == [2, 2]
    moved = [0.5, 0.1, 0.1, 0.1]
    plans = [only(job.iterate(moved, fractions=()))[2] for _ in range(10)]
    # While it doubts, it lets the chain grow as ranks arrive: that order cannot be wrong.
    in_doubt = [plan.buckets[0][2] == "slt_dynamic" for plan in plans]
    assert all(d or last_in_chain(p) == 0 for d, p in zip(in_doubt[2:], plans[2:], strict=True))
    assert last_in_chain(plans[-1]) == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_rank_that_was_long_by_chance_is_not_freed_first(seed):
    """Lateness at random says nothing of the next computation: no plan puts anybody last."""
    drawn = random.Random(seed)
    job = Job(RANKS)
    for _ in range(15):
        job.iterate([drawn.uniform(0.1, 0.2) for _ in range(RANKS)])
    _, _, plan = only(job.iterate([0.15] * RANKS))
    assert all(arrivals_s == [] for *_, arrivals_s in plan.buckets)


def test_progress_shows_a_late_rank_in_the_same_iteration():
    job = Job(RANKS)
    for _ in range(6):
        job.iterate([0.2, 0.2, 0.2, 0.2])
    assert last_in_chain(only(job.iterate([0.2, 0.9, 0.2, 0.2]))[2]) == 1


def test_without_a_selector_plans_leave_every_call_its_own_schedule():
    job = Job(RANKS, chooses=False)
    for _ in range(3):
        assert only(job.iterate(SLOW))[2].buckets == []


def test_plans_name_the_sizes_that_the_leader_saw_last():
    job = Job(RANKS)
    for _ in range(3):
        plan = only(job.iterate(SLOW))[2]
    assert [bucket[:2] for bucket in plan.buckets] == SIZES
    job.sizes = [(1 << 17, 8)]  # the buckets were rebuilt
    assert [b[:2] for b in only(job.iterate(SLOW))[2].buckets] == SIZES
    assert [b[:2] for b in only(job.iterate(SLOW))[2].buckets] == job.sizes


def test_calls_that_ask_for_no_plan_get_none():
    """As those whose algorithm is fixed, and from the second iteration on in which none asked."""
    job = Job(RANKS)

    def without_asking():
        reports = []
        job.iterate(SLOW, told=reports)
        return only(
            job.tell([r for r in reports if r[1] != "asked"], job.iteration - 1),
        )[2]

    for _ in range(4):
        without_asking()
    assert without_asking().buckets == []
    for _ in range(3):
        plan = only(job.iterate(SLOW))[2]
    assert plan.buckets
    assert without_asking().buckets
    without_asking()
    assert without_asking().buckets == []
    assert job.leader.records()[-1]["decided_s"] > 0, "what is predicted is told all the same"


def test_buckets_without_elements_do_no_harm():
    job = Job(RANKS, sizes=[(0, 4), (1 << 18, 4)])
    for _ in range(4):
        plan = only(job.iterate(SLOW))[2]
    assert [bucket[0] for bucket in plan.buckets] == [0, 1 << 18]


def test_iterations_may_be_left_out():
    job = Job(RANKS)
    for iteration in (0, 1, 5, 6, 1000):
        job.iteration = iteration
        assert only(job.iterate(SLOW))[2].iteration == iteration


def test_reports_of_an_iteration_that_is_over_are_dropped():
    job = Job(RANKS)
    for _ in range(3):
        job.iterate(SLOW)
    before = str(job.leader.records())  # as text: NaN equals nothing
    old = []
    Job.iterate(job, [9.0, 9.0, 9.0, 9.0], told=old)
    assert job.tell(old, iteration=1) == []
    assert str(job.leader.records()) == before


def test_who_asks_gets_a_plan_though_its_own_later_reports_came_first():
    state = leader(RANKS)
    assert state.started(0, 1, 6, 9.9, [], 9.9) is None
    assert state.edge(1, 1, 7, 0.5, 10.0, 10.0) is None
    assert state.asked(1, 1, 6, 10.1, 10.1).iteration == 6
    assert state.asked(1, 1, 6, 10.1, 10.1) is None
    assert state.asked(2, 1, 6, 10.2, 10.2) is None
    assert state.asked(1, 1, 7, 10.3, 10.3).iteration == 7


def test_loops_do_not_mix():
    job, other = Job(RANKS), Job(RANKS, loop=2)
    other.leader = job.leader
    for _ in range(4):
        late_2 = only(job.iterate(SLOW))[2]
        late_0 = only(other.iterate(SLOW[::-1]))[2]
    assert (last_in_chain(late_2), last_in_chain(late_0)) == (2, 1)


def test_of_more_loops_than_are_kept_the_newest_are_planned():
    state = leader(2)
    for loop in range(300):
        assert state.asked(0, loop, 0, 1.0, 1.0 + loop) is not None
        assert state.asked(1, loop, 0, 1.0, 1.0 + loop) is None
    for loop in (299, 0):
        assert state.asked(0, loop, 1, 400.0, 400.0).iteration == 1


@pytest.mark.parametrize("ahead", [2, 600, 10**12])
def test_plans_go_on_after_a_rank_lied_about_its_iteration(ahead):
    job = Job(RANKS)
    for _ in range(3):
        job.iterate(SLOW)
    for rank in (1, 3):
        job.leader.asked(rank, 1, job.iteration + ahead, job.now_s, job.now_s)
        job.leader.arrived(rank, 1, job.iteration + ahead, [job.now_s], [], job.now_s)
    for iteration in range(3, 8):
        already = iteration == 3 + ahead
        plans = [plan.iteration for *_, plan in job.iterate(SLOW)]
        assert plans == ([] if already else [iteration])


def test_loops_that_the_leaders_own_rank_has_not_begun_are_ignored():
    job = Job(RANKS)
    for _ in range(3):
        job.iterate(SLOW)
    for loop in range(5, 1000):
        assert job.leader.asked(1, loop, 0, job.now_s, job.now_s) is None
    assert last_in_chain(only(job.iterate(SLOW))[2]) == 2


wild = st.one_of(
    st.floats(), st.sampled_from([0.0, -1.0, 1e300, math.nan, math.inf, 0.5, 100.3, 1e12])
)
few = st.lists(wild, max_size=3)
kinds = st.one_of(
    st.tuples(st.just("started"), wild, few),
    st.tuples(st.just("edge"), wild, wild),
    st.tuples(st.just("asked"), wild),
    st.tuples(
        st.just("arrived"),
        few,
        st.lists(st.tuples(st.integers(0, 1 << 40), st.sampled_from([1, 2, 4, 8])), max_size=3),
    ),
)
own_clock = st.floats(0, 1e12)  # the leader's own: it may jump, but it is a number
reports = st.lists(st.tuples(kinds, st.integers(0, 2), st.integers(0, 4), own_clock), max_size=60)


@settings(max_examples=150, deadline=None)
@given(reports)
def test_whatever_is_reported_every_iteration_has_at_most_one_plan(told):
    """Wild numbers in any order: nothing is raised, and plans stay plans."""
    state = leader(3)
    planned = set()
    for _ in range(2):  # a first round to learn rubbish from, a second to use it
        for (kind, *arguments), rank, iteration, now_s in told:
            plan = getattr(state, kind)(rank, 1, iteration, *arguments, now_s)
            if plan is None:
                continue
            assert plan.iteration == iteration
            assert iteration not in planned
            planned.add(iteration)
            for elements, element_bytes, algorithm, segments, arrivals_s in plan.buckets:
                assert 1 <= segments <= max(elements, 1)
                assert element_bytes in {1, 2, 4, 8}
                assert algorithm
                assert len(arrivals_s) in {0, 3}
                assert all(0 <= arrival_s < math.inf for arrival_s in arrivals_s)


@pytest.mark.parametrize("ranks", range(1, 71))
def test_the_plan_reaches_every_rank_once(ranks):
    reached, new = [0], [0]
    while new:
        new = [child for rank in new for child in _core.plan_children(rank, ranks)]
        reached += new
    assert sorted(reached) == list(range(ranks))


@pytest.mark.parametrize(("ranks", "hops"), [(2, 1), (17, 1), (18, 2), (273, 2), (1000, 3)])
def test_a_plan_takes_few_hops(ranks, hops):
    depth = {0: 0}
    for rank in range(ranks):  # a parent's number is lower than its children's
        for child in _core.plan_children(rank, ranks):
            depth[child] = depth[rank] + 1
    assert max(depth.values()) == hops


def test_the_selector_of_the_replay_is_the_real_one():
    choice = _core.Selector(RANKS, LINK).choose(*SIZES[0], SLOW)
    assert choice[0] == "slt"


def test_no_order_is_trusted_where_nothing_is_known_of_a_rank():
    """It is taken for the median of the others: put among them, it might hold up half of them."""
    drawn = random.Random(3)
    job = Job(8, sizes=[(1 << 19, 4)])
    computes_s = [0.1, 0.117, 0.328, 0.118, 0.144, 0.141, 0.169, 0.129]
    for _ in range(10):
        noisy_s = [compute_s + 0.002 * drawn.random() for compute_s in computes_s]
        plan = only(job.iterate(noisy_s, fractions=(), silent=[7]))[2]
    assert plan.buckets[0][2] == "slt_dynamic"


def test_a_late_rank_is_answered_again_soon_after_another_took_ages_once():
    job = Job(RANKS)
    for _ in range(15):
        job.iterate(SLOW)
    job.iterate([100.0, *SLOW[1:]])
    plans = [only(job.iterate(SLOW))[2] for _ in range(12)]
    assert plans[-1].buckets, "a plan again"
    assert last_in_chain(plans[-1]) == 2


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
    noisy = [[late_s + drawn.uniform(0, 1e-3) for late_s in SLOW] for _ in range(41)]
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


def test_who_asks_waits_no_longer_than_plans_promise():
    """Ranks compute as long as each other, but for a tenth by chance."""
    drawn = random.Random(2)
    job = Job(RANKS, patience_s_per_byte=1 / LINK.bytes_per_s)
    looks = 0
    for iteration in range(150):
        computes_s = [drawn.uniform(0.3, 0.33) for _ in range(RANKS)]
        kind, rank, _ = only(job.iterate(computes_s, fractions=()))
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
