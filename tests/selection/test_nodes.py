"""Ranks that share nodes are planned as nodes, each as late as its last rank."""

import random
from dataclasses import replace

import pytest

import patallreduce as pat
from patallreduce import _core
from tests.selection.test_planner import SIZES, spaced

LINK = pat.Link(50e-6, 25e6, 5e9)
NODES = [0, 0, 1, 1, 1, 2]
LATE = 3


def planner(nodes=NODES):
    return _core.Planner(len(nodes), LINK, node_of=nodes)


def late(seconds, rank=LATE):
    return [0.15 + seconds * (other == rank) for other in range(len(NODES))]


def order(arrivals_s):
    return sorted(range(len(arrivals_s)), key=lambda rank: (arrivals_s[rank], rank))


def test_together_there_is_no_plan_and_a_late_rank_gets_one():
    together = late(0.0)
    assert planner().plan(SIZES, spaced(together), [], together)[0] == []
    keys, pace_s, plain_pace_s = planner().plan(SIZES, spaced(late(0.3)), [], late(0.3))
    assert pace_s < 0.97 * plain_pace_s
    for _, segments, arrivals_s, _ in keys:
        assert segments % len(NODES) == 0
        assert order(arrivals_s)[-1] == LATE


def test_a_plan_is_that_of_the_nodes():
    """As many ranks as nodes, each as late as its node's last."""
    of_nodes = _core.Planner(3, LINK)
    arrivals_s = [0.15, 0.15 + 0.3, 0.15]
    _, pace_s, plain_pace_s = of_nodes.plan(SIZES, spaced(arrivals_s), [], arrivals_s)
    keys, *paces_s = planner().plan(SIZES, spaced(late(0.3)), [], late(0.3))
    # It is one of the algorithms that work by node, of which there are fewer.
    assert keys
    assert paces_s[0] == pytest.approx(pace_s, rel=0.05)
    assert paces_s[1] == pytest.approx(plain_pace_s, rel=0.05)


def test_of_a_node_the_ranks_follow_each_other_as_they_arrive():
    drawn = random.Random(3)
    for _ in range(20):
        last_s = [0.15 + 0.4 * drawn.random() for _ in NODES]
        keys, _, _ = planner().plan(SIZES, spaced(last_s), [], last_s)
        for name, segments, arrivals_s, segment_time_s in keys:
            pat.verify(
                pat.schedule(
                    name,
                    len(NODES),
                    segments,
                    arrivals_s,
                    segment_time_s=segment_time_s,
                    nodes=NODES,
                )
            )
            if name == "ring":
                continue
            for node in set(NODES):
                ranks = [rank for rank in order(arrivals_s) if NODES[rank] == node]
                assert ranks == sorted(ranks, key=lambda rank: last_s[rank])


def test_results_are_expected_when_the_plan_gives_them():
    arrived = spaced(late(0.3))
    keys, *_ = planner().plan(SIZES, arrived, [], late(0.3))
    of_nodes = _core.Planner(3, LINK)
    by_node = spaced([0.15, 0.45, 0.15])
    plain = planner().finish_s(SIZES, arrived)
    assert plain == pytest.approx(
        [of_nodes.finish_s(SIZES, by_node)[node] for node in NODES], rel=0.05
    )
    planned = planner().finish_s(SIZES, arrived, keys)
    assert max(planned) < max(plain)
    assert len({planned[rank] for rank in range(len(NODES)) if NODES[rank] == 1}) == 1


def test_single_calls_take_what_works_by_node_unless_they_are_small():
    selector = _core.Selector(len(NODES), LINK, NODES)
    assert selector.choose(1 << 14, 4, [0.0] * len(NODES))[0] == "ring"
    together = [0.0] * len(NODES)
    assert _core.find_algorithm(selector.choose(1 << 20, 4, together)[0], "all_reduce").by_node
    assert selector.choose(16, 4, together)[0] == "recursive_doubling"
    name, _, arrivals_s, _, _ = selector.choose(1 << 20, 4, late(0.3))
    assert _core.find_algorithm(name, "all_reduce").by_node
    assert order(arrivals_s)[-1] == LATE


@pytest.mark.parametrize(("partners", "slower", "left"), [(1, 2, 1), (1.5, 4 / 3, 1), (4, 1, 2)])
def test_what_runs_among_ranks_is_priced_with_their_share_of_the_nodes_port(partners, slower, left):
    """Two ranks send through one port, which so many partners fill."""
    together = [0.0] * 4
    link = replace(LINK, partners=partners)
    shared = replace(LINK, bytes_per_s=LINK.bytes_per_s / slower, partners=left)
    choice = _core.Selector(4, link, [0, 0, 1, 1]).choose(50, 4, together)
    assert choice == _core.Selector(4, shared).choose(50, 4, together)
    assert not _core.find_algorithm(choice[0], "all_reduce").by_node


def test_fewer_partners_fill_a_share_of_a_port():
    """With as many as fill the whole one a direct exchange would be the faster."""
    together = [0.0] * 4
    link = pat.Link(5e-6, 1e9, 5e9, partners=4)
    choice = _core.Selector(4, link, [0, 0, 1, 1]).choose(1000, 4, together)
    assert choice == _core.Selector(4, replace(link, partners=2)).choose(1000, 4, together)
    assert choice != _core.Selector(4, link).choose(1000, 4, together)


def test_measured_times_are_shared_as_well():
    times = ((1000.0, 20e-6), (10000.0, 500e-6))
    shared = tuple((bytes_, 2 * seconds) for bytes_, seconds in times)
    together = [0.0] * 4
    choice = _core.Selector(4, replace(LINK, transfers_s=times), [0, 0, 1, 1]).choose(
        50, 4, together
    )
    of_ranks = replace(LINK, bytes_per_s=LINK.bytes_per_s / 2, transfers_s=shared)
    assert choice == _core.Selector(4, of_ranks).choose(50, 4, together)


def test_nodes_that_make_no_sense():
    with pytest.raises(pat.ScheduleError, match=r"one node per rank \(4\), got 2"):
        _core.Planner(4, LINK, node_of=[0, 1])
    with pytest.raises(pat.ScheduleError, match="a node in"):
        _core.Selector(2, LINK, [0, 7])
