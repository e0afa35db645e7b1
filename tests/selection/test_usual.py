"""What is planned where nobody can wait until the best plan is worked out."""

import pytest

from patallreduce import Link, _core

RANKS = 8
LINK = Link(100e-6, 25e6, 5e9)
SIZES = [(1 << 19, 4)] * 2  # 168 ms to transfer
LATE_S = 0.3


def arrivals_s(late_rank, late_s=LATE_S):
    """By bucket and rank: one is late."""
    return [[late_s if rank == late_rank else 0.0 for rank in range(RANKS)]] * len(SIZES)


def algorithm(plan):
    keys, _, _ = plan
    return keys[0][0] if keys else None


@pytest.fixture
def planner():
    """One that has planned three times alike."""
    planner = _core.Planner(RANKS, LINK)
    for more_s in (0, 5e-3, 10e-3):
        assert algorithm(planner.plan(SIZES, arrivals_s(2, LATE_S + more_s))) == "slt"
    return planner


def test_the_usual_plan_is_taken_at_once_in_the_order_of_the_day(planner):
    keys, pace_s, plain_pace_s = planner.plan(SIZES, arrivals_s(5), at_once=True)
    assert [key[0] for key in keys] == ["slt"] * len(SIZES)
    assert all(max(range(RANKS), key=key[2].__getitem__) == 5 for key in keys)
    assert 0 < pace_s < plain_pace_s
    assert planner.catch_up()
    assert not planner.catch_up()


def test_what_agreed_need_not_be_confirmed_at_once(planner):
    planner.plan(SIZES, arrivals_s(5), at_once=True)
    assert not planner.catch_up(confirms=False)
    assert planner.catch_up()
    hasty = _core.Planner(RANKS, LINK, most_wait=0)
    hasty.plan(SIZES, arrivals_s(2, 0.0))
    assert hasty.plan(SIZES, arrivals_s(2), at_once=True) is None
    assert hasty.catch_up(confirms=False), "nothing is known of it"


def test_what_is_known_needs_no_catching_up(planner):
    assert algorithm(planner.plan(SIZES, arrivals_s(2), at_once=True)) == "slt"
    assert not planner.catch_up()


@pytest.mark.parametrize("late_s", [0.0, 0.1 * LATE_S, 3 * LATE_S])
def test_ranks_as_far_apart_as_never_before_are_planned_for(planner, late_s):
    soon = planner.plan(SIZES, arrivals_s(5, late_s), at_once=True)
    assert not planner.catch_up()
    assert soon == _core.Planner(RANKS, LINK).plan(SIZES, arrivals_s(5, late_s))


def test_other_buckets_have_another_usual_plan(planner):
    sizes = [(1 << 10, 4)] * 2
    planner.plan(sizes, arrivals_s(5), at_once=True)
    assert not planner.catch_up()


def test_what_has_changed_is_found_out_and_then_planned(planner):
    """Here: that all but one are late."""
    late = [[0.0] + [LATE_S] * (RANKS - 1)] * len(SIZES)
    assert algorithm(_core.Planner(RANKS, LINK).plan(SIZES, late)) is None
    assert algorithm(planner.plan(SIZES, late, at_once=True)) == "slt"
    assert planner.catch_up()
    assert algorithm(planner.plan(SIZES, late, at_once=True)) is None


def test_two_plans_alike_are_not_enough():
    planner = _core.Planner(RANKS, LINK)
    for more_s in (0, 5e-3):
        planner.plan(SIZES, arrivals_s(2, LATE_S + more_s))
    planner.plan(SIZES, arrivals_s(5), at_once=True)
    assert not planner.catch_up()


def test_another_network_has_no_usual_plan_yet(planner):
    planner.ports = [25e6] * (RANKS - 1) + [12e6]
    planner.plan(SIZES, arrivals_s(5), at_once=True)
    assert not planner.catch_up()


def test_where_the_wait_is_too_long_the_next_iteration_has_the_plan():
    planner = _core.Planner(RANKS, LINK, most_wait=0)
    assert algorithm(planner.plan(SIZES, arrivals_s(2, 0.0), at_once=True)) is None  # worked out
    assert not planner.catch_up()
    assert planner.plan(SIZES, arrivals_s(2), at_once=True) is None
    assert planner.catch_up()
    assert algorithm(planner.plan(SIZES, arrivals_s(2), at_once=True)) == "slt"
    assert not planner.catch_up()
    # And one like it at once, though it was planned only once.
    assert algorithm(planner.plan(SIZES, arrivals_s(5, LATE_S + 5e-3), at_once=True)) == "slt"
    assert planner.catch_up()


def test_whoever_can_wait_has_the_best_plan_whatever_it_takes():
    planner = _core.Planner(RANKS, LINK, most_wait=0)
    planner.plan(SIZES, arrivals_s(2, 0.0))
    assert algorithm(planner.plan(SIZES, arrivals_s(2))) == "slt"
