"""The leader as a state machine: for what it plans, and what never disturbs it."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patallreduce import _core
from tests.monitor.replay import LINK, SIZES, SLOW, Job, last_in_chain, leader, only

RANKS = 4


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


@settings(max_examples=150)
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
