"""What was measured counts where all arrive together: in calls, and in what plans have to beat."""

import pytest

import patallreduce as pat
from patallreduce import _core

LINK = pat.Link(50e-6, 25e6, 5e9)
ELEMENTS = 1 << 20
TOGETHER = [0.0] * 8
LATE = [0.0] * 7 + [0.5]
NODES = [0, 0, 1, 1, 2, 2, 3, 3]


def rules(algorithm, segment_bytes=0):
    return _core.Rules([(1 << 40, algorithm, segment_bytes)])


def test_a_rule_is_taken_where_all_arrive_together():
    selector = _core.Selector(8, LINK, alone=rules("two_tree"))
    assert selector.choose(ELEMENTS, 4, TOGETHER)[0] == "two_tree"
    assert selector.choose(ELEMENTS, 4, [0.5] * 8)[0] == "two_tree"
    assert selector.choose(ELEMENTS, 4, LATE) == _core.Selector(8, LINK).choose(ELEMENTS, 4, LATE)
    assert selector.choose_beside_others(ELEMENTS, 4)[0] != "two_tree"


def test_beside_others_others_are_taken():
    selector = _core.Selector(8, LINK, beside_others=rules("rabenseifner"))
    assert selector.choose_beside_others(ELEMENTS, 4)[0] == "rabenseifner"
    assert selector.choose(ELEMENTS, 4, TOGETHER)[0] != "rabenseifner"


def test_sizes_without_a_rule_go_by_the_model():
    some = _core.Rules([(4095, "two_tree", 0), (1 << 20, "", 0), (1 << 23, "rabenseifner", 0)])
    selector, model = _core.Selector(8, LINK, alone=some), _core.Selector(8, LINK)
    assert selector.choose(1000, 4, TOGETHER)[0] == "two_tree"
    for elements in (1024, 1 << 18, 1 << 22):
        assert selector.choose(elements, 4, TOGETHER) == model.choose(elements, 4, TOGETHER)
    assert selector.choose(1 << 19, 4, TOGETHER)[0] == "rabenseifner"


def test_among_nodes_segments_are_the_ranks_parts():
    """Of what works by node; of all else as if nobody shared one."""
    selector = _core.Selector(8, LINK, NODES, alone=rules("ring", 1 << 18))
    assert selector.choose(ELEMENTS, 4, TOGETHER)[:2] == ("ring", 16)
    selector = _core.Selector(8, LINK, NODES, alone=rules("rabenseifner", 1 << 18))
    assert selector.choose(ELEMENTS, 4, TOGETHER)[:2] == ("rabenseifner", 16)


@pytest.mark.parametrize("algorithm", ["rabenseifner", "two_tree"])
def test_plans_are_compared_with_what_calls_take_by_rule(algorithm):
    """Of a rule that nobody prices, with the usual one."""
    sizes = [(ELEMENTS, 4)]
    planner = _core.Planner(8, LINK, alone=rules(algorithm))
    taken = "ring" if algorithm == "two_tree" else algorithm
    segments = _core.find_algorithm(taken, "all_reduce").segments(8, 4 * ELEMENTS, ELEMENTS, LINK)
    plain_s = planner.finish_s(sizes, [TOGETHER])
    assert plain_s == pytest.approx(
        planner.finish_s(sizes, [TOGETHER], [(taken, segments, [], 0.0)])
    )
    keys, pace_s, plain_pace_s = planner.plan(sizes, [LATE])
    assert keys
    assert pace_s < plain_pace_s


@pytest.mark.parametrize("algorithm", ["two_tree", "binomial_all_reduce", "recursive_doubling"])
def test_iterations_by_what_nobody_prices_are_simulated(algorithm):
    """One bucket takes what its schedule does; two, more than one and at most twice as long."""
    size, key = (ELEMENTS, 4), (algorithm, 4, [], 0.0)
    planner = _core.Planner(8, LINK)
    made = pat.schedule(algorithm, 8, 4)
    alone_s = max(pat.simulate(made, LINK, 4 * ELEMENTS).finish_s)
    assert max(planner.finish_s([size], [TOGETHER], [key])) == pytest.approx(alone_s)
    both_s = max(planner.finish_s([size] * 2, [TOGETHER] * 2, [key] * 2))
    assert alone_s < both_s <= 2 * alone_s


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ([(8, "rign", 0)], "unknown algorithm 'rign' for all_reduce"),
        ([(8, "ring", 0), (8, "ring", 0)], "sizes that grow, got 8 bytes after 8"),
        ([(8, "slt_dynamic", 0)], "known beforehand, got slt_dynamic"),
    ],
)
def test_rules_that_make_no_sense(told, text):
    with pytest.raises(pat.ScheduleError, match=text):
        _core.Rules(told)
