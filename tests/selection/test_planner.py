"""Plans of whole iterations: what they must be where that is clear, and what never changes them."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from benchmarks.jobs import job
from benchmarks.jobs.cells import NOBODY, Cell
from patallreduce import _core

LINK = pat.Link(50e-6, 25e6, 5e9)
SIZES = [(1 << 18, 4)] * 4  # 42 ms each
TRANSFER_S = 4 * (1 << 20) / LINK.bytes_per_s


def spaced(last_s, sizes=SIZES, backward_s=0.1):
    """(buckets, P) arrivals of ranks whose last bucket is ready at last_s."""
    buckets = len(sizes)
    return [
        [at_s - backward_s * (1 - (b + 1) / buckets) for at_s in last_s] for b in range(buckets)
    ]


def plan(
    last_s,
    compute_s=(),
    *,
    errors_s=(),
    spreads_s=(),
    sizes=SIZES,
    planner=None,
    link=LINK,
    backward_s=0.1,
    before="",
):
    planner = planner or _core.Planner(len(last_s), link)
    arrivals_s = spaced(last_s, sizes, backward_s)
    return planner.plan(
        sizes, arrivals_s, list(errors_s), list(compute_s), list(spreads_s), before=before
    )


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 16])
def test_ranks_that_arrive_together_need_no_plan(ranks):
    keys, pace_s, plain_pace_s = plan([0.15] * ranks, [0.15] * ranks)
    assert keys == []
    assert pace_s == plain_pace_s > 0


@pytest.mark.parametrize("ranks", [32, 64, 100])
def test_many_that_arrive_together_need_no_order(ranks):
    """What suits several buckets together may be another algorithm than suits each alone."""
    keys, _, _ = plan([0.15] * ranks, [0.15] * ranks)
    assert all(order == [] for _, _, order, _ in keys)


@pytest.mark.parametrize("ranks", [4, 5, 8, 16, 64, 100])
def test_a_very_late_rank_is_the_last_of_every_chain(ranks):
    compute_s = [0.15] * ranks
    compute_s[1] = 1.0
    keys, pace_s, plain_pace_s = plan(compute_s, compute_s)
    assert {name for name, *_ in keys} == {"slt"}
    assert len(keys) == len(SIZES)
    for _, segments, order, _ in keys:
        assert segments > 8
        assert order.index(max(order)) == 1
    assert pace_s < plain_pace_s


@pytest.mark.parametrize(
    "name", [a.name for a in _core.algorithms() if a.collective == "all_reduce"]
)
@pytest.mark.parametrize("in_flight", [1, 3])
def test_of_many_ranks_what_has_no_closed_form_is_simulated_or_left(name, in_flight):
    planner, sizes = _core.Planner(100, LINK), [(1024, 4)] * in_flight
    segments = _core.find_algorithm(name, "all_reduce").segments(100, 4096, 1024, LINK)
    together = [[0.0] * 100] * in_flight
    finish_s = planner.finish_s(sizes, together, [(name, segments, [], 0.0)] * in_flight)
    many_messages = {"prr", "radix_k", "reproducible", "clairvoyant"}
    assert len(finish_s) == (0 if name in many_messages else 100)
    assert all(at_s > LINK.latency_s for at_s in finish_s)


@pytest.mark.parametrize("ranks", [4, 5, 8])
def test_a_stagger_that_nobody_computes_is_not_answered_with_another(ranks):
    """Ranks that a chain let go one after the other, and that compute equally long.

    A chain would serve these arrivals best, and stagger the next ones; what lets all go together
    ends it.
    """
    last_s = [0.15 + 0.02 * rank for rank in range(ranks)]
    assert {name for name, *_ in plan(last_s, [0.15] * ranks)[0]} <= {"prr"}


def test_who_is_late_this_time_only_is_served_this_time():
    """From now on a chain would lose: the ranks compute equally long."""
    keys, pace_s, plain_pace_s = plan([0.15, 0.15, 0.6, 0.15], [0.15] * 4)
    assert keys
    assert pace_s < plain_pace_s


def test_a_change_has_to_pay_within_twice_the_iterations_that_are_looked_at():
    """A chain costs half an iteration at first, and wins a tenth of that in each later one."""
    link = pat.Link(1e-3, 1.25e9, 5e9)
    compute_s = [0.5e-3 + 0.04e-3 * rank for rank in range(12)]
    keys, pace_s, plain_pace_s = plan(
        compute_s, compute_s, sizes=[(34445, 4)] * 8, link=link, backward_s=0.3e-3
    )
    assert {name for name, *_ in keys} == {"slt"}
    assert 0.95 < pace_s / plain_pace_s < 0.985


@pytest.mark.parametrize("late_s", [0.0, TRANSFER_S / 2, 2 * TRANSFER_S])
def test_the_pace_without_plans_is_what_the_clock_says(late_s):
    """Of eight iterations, which begin while the one before still drains."""
    last_s = [0.1 + 0.2 * late_s, 0.1 + late_s, 0.1, 0.1, 0.1 + 0.4 * late_s]
    compute_s = [0.02] * 5
    _, _, plain_pace_s = plan(last_s, compute_s)
    on = job.Job(Cell(5, 4, 1 << 18, LINK.latency_s, LINK.bytes_per_s, 0.02, NOBODY, 0, 0, 1))
    next_s = last_s
    for _ in range(8):
        on.reduce(on.own, spaced(next_s))
        next_s = [free_s + own_s for free_s, own_s in zip(on.free_s, compute_s, strict=True)]
    assert plain_pace_s == pytest.approx((max(next_s) - max(last_s)) / 8, rel=0.02)


def test_no_chain_grows_beside_other_buckets():
    """What tells who is next would wait behind their data."""
    alone, beside_s = [(1 << 19, 4)], [0.0, 0.34, *[0.0] * 6]
    doubt_s, compute_s = [0.17] * 8, [0.017] * 8
    both = alone * 2
    kept = plan(beside_s, compute_s, errors_s=doubt_s, spreads_s=doubt_s, sizes=both)[0]
    assert {name for name, *_ in kept} == {"slt"}
    grown = plan(beside_s, compute_s, errors_s=doubt_s, spreads_s=doubt_s, sizes=alone)[0]
    assert {name for name, *_ in grown} == {"slt_dynamic"}


def test_the_last_bucket_alone_would_have_taken_a_chain():
    """So it is the buckets together, and the iterations to come, that decide."""
    last_s = [0.15 + 0.02 * rank for rank in range(8)]
    choice = _core.Selector(8, LINK).choose(*SIZES[-1], last_s)
    assert choice[0] != "ring"


@pytest.mark.parametrize("seed", range(5))
def test_another_numbering_of_the_ranks_gives_the_same_plan_renumbered(seed):
    draw = random.Random(seed)
    last_s = draw.sample([0.15, 0.2, 0.25, 0.4, 0.7, 1.0], 6)
    order = draw.sample(range(6), 6)
    keys, pace_s, _ = plan(last_s, last_s)
    renamed, renamed_pace_s, _ = plan([last_s[r] for r in order], [last_s[r] for r in order])
    assert pace_s == pytest.approx(renamed_pace_s, rel=0.02)
    for (name, segments, own, _), (other, other_segments, theirs, _) in zip(
        keys, renamed, strict=True
    ):
        assert (name, segments) == (other, other_segments)
        assert [own[r] for r in order] == theirs


def test_the_clocks_zero_does_not_count():
    last_s = [0.15, 0.2, 0.5, 0.15]
    keys, *paces_s = plan(last_s, last_s)
    moved, *moved_paces_s = plan([x + 12345.0 for x in last_s], last_s)
    assert moved == keys
    assert moved_paces_s == pytest.approx(paces_s)


def test_what_was_planned_before_changes_nothing():
    planner = _core.Planner(4, LINK)
    forecasts = [[0.15, 0.2, 0.1 * n, 0.15] for n in range(12)]
    first = [plan(last_s, last_s, planner=planner) for last_s in forecasts]
    again = [plan(last_s, last_s, planner=planner) for last_s in forecasts[::-1]][::-1]
    alone = [plan(last_s, last_s) for last_s in forecasts]
    assert first == again == alone


def test_a_rank_that_is_late_by_chance_alone_is_not_freed_first():
    """Late now, and not expected to be again, with computations that differ anyhow."""
    last_s = [0.15] * 7 + [0.2]
    keys, _, _ = plan(last_s, [0.15] * 8, spreads_s=[0.03] * 8, errors_s=[0.03] * 8)
    assert {name for name, *_ in keys} <= {"direct_exchange"}


def test_small_buckets_cost_what_their_latencies_do():
    """Nothing is gained where a message is all latency, and nothing is lost."""
    sizes = [(10, 4)] * 30
    keys, pace_s, plain_pace_s = plan([0.15] * 8, [0.15] * 8, sizes=sizes)
    assert keys == []
    assert pace_s == plain_pace_s == pytest.approx(0.15, rel=0.05)


def test_a_thousand_buckets_are_planned():
    sizes = [(1 << 12, 4)] * 1000
    compute_s = [0.15] * 7 + [2.0]
    keys, _, _ = plan(compute_s, compute_s, sizes=sizes)
    assert len(keys) in {0, 1000}


@pytest.mark.parametrize("late_s", [0.0, 1.0])
def test_when_ranks_will_have_their_results_is_what_the_clock_says(late_s):
    """With the plan of a late rank, and without one; at any zero of the clock."""
    compute_s = [0.15, 0.15 + late_s, 0.15, 0.16]
    arrivals_s = spaced(compute_s)
    planner = _core.Planner(4, LINK)
    keys, _, _ = planner.plan(SIZES, arrivals_s, compute_s=compute_s)
    assert bool(keys) == bool(late_s)
    ran = keys or [_core.Selector(4, LINK).choose_beside_others(*SIZES[0])[:4]] * len(SIZES)
    collectives = []
    for (name, segments, hints_s, segment_s), row in zip(ran, arrivals_s, strict=True):
        schedule = _core.generate(name, 4, segments, hints_s, segment_time_s=segment_s)
        collectives.append((_core.Simulation(schedule), 1 << 20, [], row, 1))
    by_bucket, _ = _core.simulate_together(collectives, LINK)
    last_s = [max(column) for column in zip(*by_bucket, strict=True)]
    told_s = planner.finish_s(SIZES, [[at_s + 70 for at_s in row] for row in arrivals_s], keys)
    assert [at_s - 70 for at_s in told_s] == pytest.approx(last_s, rel=0.02)


@pytest.mark.parametrize("compute_s", [0.3, 30.0])
def test_what_a_plan_has_to_win_does_not_grow_with_what_is_computed(compute_s):
    last_s = [compute_s] * 3 + [compute_s + 0.3]
    keys, _, _ = plan(last_s, last_s)
    assert keys


@pytest.mark.parametrize("seed", range(3))
def test_later_plans_will_know_as_much_as_this_one(seed):
    """Where ranks vary, but tell in time by how much, a chain has the right order each time."""
    drawn = random.Random(seed)
    last_s = [drawn.uniform(0.3, 0.6) for _ in range(4)]

    def gain(error_s):
        best = _core.Planner(4, LINK, margin=-1.0)
        told = plan(last_s, [0.45] * 4, spreads_s=[0.1] * 4, errors_s=[error_s] * 4, planner=best)
        return 1 - told[1] / told[2]

    assert gain(0.01) > 0.03
    assert gain(0.1) < 0.01


def test_ways_with_few_messages_are_priced_bucket_by_bucket():
    """Though others, of many ranks and buckets, have more messages than can be simulated."""
    of = Cell(64, 8, 43959, 1e-3, 125e6, 0.0117, NOBODY, 0.0, 0.0, 1, port_share=0.025)
    on = job.Job(of)
    ends = job.ends_s(of, of.computes_s(8), lambda on, _: on.own)
    sizes = [(of.bucket_elements, 4)] * of.buckets
    arrivals_s = on.arrivals_s([of.compute_s] * of.ranks)
    planner = _core.Planner(of.ranks, of.link)
    _, _, plain_s = planner.plan(sizes, arrivals_s, compute_s=[of.compute_s] * of.ranks)
    assert plain_s == pytest.approx(job.pace_s(ends, 2), rel=0.02)


def test_a_chain_that_grows_waits_until_its_next_rank_is_known():
    """Two messages after that one has arrived; all of them wait for it before they send."""
    slow = pat.Link(10e-3, 25e6, 5e9)
    arrivals_s = [0.3, 0.0, 0.1, 0.2]
    finish_s = _core.Planner(4, slow).finish_s(
        SIZES[:1], [arrivals_s], [("slt_dynamic", 8, [], 0.0)]
    )
    # In order of arrival; the last two know of each other once the third has arrived.
    known_s = [0.1 + 0.02, 0.2 + 0.02, 0.2 + 0.02, 0.3]
    chain = _core.Simulation(_core.generate("slt", 4, 8))
    (by_place_s,), _ = _core.simulate_together(
        [(chain, SIZES[0][0] * SIZES[0][1], [1, 2, 3, 0], known_s, 1)], slow
    )
    assert [finish_s[rank] for rank in (1, 2, 3, 0)] == pytest.approx(by_place_s)


def test_a_plan_has_the_order_of_its_own_forecast():
    """Though a forecast that is alike has been planned before."""
    planner = _core.Planner(4, LINK)
    for first, second in ((1, 2), (2, 1)):
        compute_s = [0.15, 0.15, 0.15, 0.15]
        compute_s[first], compute_s[second] = 0.9, 0.901  # alike: less than a sixty-fourth
        keys, _, _ = plan(compute_s, [0.15, 0.9, 0.9, 0.15], planner=planner)
        assert {name for name, *_ in keys} == {"slt"}
        assert all(order[first] < order[second] for _, _, order, _ in keys)


def test_all_buckets_of_a_plan_have_the_order_of_the_last():
    """Chains in several orders would wait for each other at the ports."""
    compute_s = [0.15, 0.152, 0.154, 0.9]
    arrivals_s = spaced(compute_s)
    arrivals_s[0][:3] = reversed(arrivals_s[0][:3])
    planner = _core.Planner(4, LINK)
    keys, _, _ = planner.plan(SIZES, arrivals_s, [], [0.15, 0.15, 0.15, 0.9], [])
    assert [(name, order) for name, _, order, _ in keys] == [("slt", [0, 1, 2, 3])] * len(SIZES)


def test_results_are_told_of_as_many_keys_as_buckets():
    planner = _core.Planner(2, LINK)
    assert planner.finish_s([], []) == []
    with pytest.raises(pat.ScheduleError, match="expected 1 keys, got 2"):
        planner.finish_s(SIZES[:1], [[0.0, 1.0]], [("ring", 2, [], 0.0)] * 2)


def test_nothing_to_reduce_and_nobody_to_reduce_with():
    assert plan([], planner=_core.Planner(1, LINK), sizes=[]) == ([], 0.0, 0.0)
    assert plan([3.0], [1.0]) == ([], 0.0, 0.0)
    assert plan([0.0, 9.0], sizes=[(0, 4), (0, 4)])[0] == []


times = st.one_of(st.floats(-1e300, 1e300), st.floats(0, 1), st.sampled_from([0.0, 0.1, 1e12]))
durations = st.one_of(st.floats(0, 1e300), st.floats(0, 1), st.sampled_from([0.0, 0.1, 1e12]))
sizes = st.lists(st.tuples(st.integers(0, 1 << 20), st.sampled_from([2, 4, 8])), max_size=4)


@settings(max_examples=60)
@given(st.data(), st.integers(1, 6), sizes)
def test_whatever_is_forecast_a_plan_can_be_made(data, ranks, sizes):
    def drawn(of):
        return data.draw(st.lists(of, min_size=ranks, max_size=ranks))

    arrivals_s = [drawn(times) for _ in sizes]
    others_s = [drawn(durations) for _ in range(3)]
    keys, pace_s, plain_pace_s = _core.Planner(ranks, LINK).plan(sizes, arrivals_s, *others_s)
    assert pace_s <= plain_pace_s or math.isnan(pace_s)
    assert len(keys) in {0, len(sizes)}
    for (name, segments, order, segment_time_s), (elements, _) in zip(keys, sizes, strict=False):
        assert 1 <= segments <= max(elements, 1)
        pat.verify(
            pat.schedule(name, ranks, segments, order or None, segment_time_s=segment_time_s)
        )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([(1, 4)], []), "arrivals of 1 buckets, got 0"),
        (([(1, 4)], [[0.0, 1.0]]), "expected 3 values in arrivals_s, got 2"),
        (([(1, 4)], [[0.0, 1.0, math.nan]]), "got nan for rank 2"),
        (([(1, 4)], [[0.0] * 3], [0.0, -1.0, 0.0]), "errors_s >= 0, got -1 for rank 1"),
        (([(1, 4)], [[0.0] * 3], [], [0.0, 0.0]), "expected 3 values in compute_s, got 2"),
        (([(1, 4)], [[0.0] * 3], [], [], [math.inf] * 3), "finite spreads_s >= 0, got inf"),
    ],
)
def test_a_forecast_that_makes_no_sense_is_named(arguments, told):
    with pytest.raises(pat.ScheduleError, match=told):
        _core.Planner(3, LINK).plan(*arguments)


def test_no_ranks_and_no_link_are_refused():
    with pytest.raises(pat.ScheduleError, match="at least 1 rank"):
        _core.Planner(0, LINK)


def test_many_ranks_are_planned_in_closed_form():
    """Schedules of so many ranks would take seconds and gigabytes."""
    ranks = 2000
    last_s = [0.15 + 1e-5 * rank for rank in range(ranks)]
    keys, pace_s, plain_pace_s = plan(last_s, [0.15] * ranks, errors_s=[0.01] * ranks)
    assert 0 < pace_s <= plain_pace_s
    assert len(keys) in {0, len(SIZES)}


def test_arrivals_far_apart_are_put_in_order():
    keys, _, _ = plan([0.0, 1e11, 0.0, 1e10], [0.0] * 4)
    for _, _, order, _ in keys:
        assert order == [] or max(order) == order[1]
