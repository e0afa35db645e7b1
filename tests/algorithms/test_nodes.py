"""Ranks that share nodes: every segment enters a node once, and once more as a result."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat

BY_NODE = ("ring", "slt", "prr", "direct_exchange")
MESSAGE_BYTES = 4 << 20
PORT_BYTES_PER_S = 25e6
TRANSFER_S = MESSAGE_BYTES / PORT_BYTES_PER_S  # M * beta


def entries(schedule, nodes):
    """How often each segment enters each node, as a sum and as a result."""
    counts = {}
    for rank, node in enumerate(nodes):
        for step in schedule.steps(rank):
            if step.verb == "send" or nodes[step.peer] == node:
                continue
            for segment in range(step.first, step.last):
                key = (node, segment, step.verb)
                counts[key] = counts.get(key, 0) + 1
    return counts


@st.composite
def problems(draw):
    ranks = draw(st.integers(1, 9))
    most = draw(st.integers(0, ranks - 1))
    return {
        "name": draw(st.sampled_from(BY_NODE)),
        "ranks": ranks,
        "segments": draw(st.sampled_from([1, 3, ranks, 2 * ranks])),
        "nodes": draw(st.lists(st.integers(0, most), min_size=ranks, max_size=ranks)),
        "arrivals_s": draw(
            st.none()
            | st.lists(st.integers(0, 3).map(float), min_size=ranks, max_size=ranks)
            | st.lists(st.floats(0, 1), min_size=ranks, max_size=ranks)
        ),
        "segment_time_s": draw(st.sampled_from([0.0, 0.1, 0.5])),
    }


@settings(max_examples=400)
@given(problems())
def test_any_nodes_give_a_right_schedule_that_enters_each_node_once(problem):
    if problem["name"] not in ("prr", "direct_exchange"):
        del problem["segment_time_s"]
    schedule = pat.schedule(**problem)

    pat.verify(schedule)

    counts = entries(schedule, problem["nodes"])
    others = len(set(problem["nodes"])) - 1
    of_sums = [key for key in counts if key[2] == "recv_reduce"]
    assert sum(counts[key] for key in of_sums) == others * problem["segments"]
    assert {counts[key] for key in counts if key not in of_sums} <= {1}
    if problem["name"] == "direct_exchange":  # each segment enters its owner's node alone
        assert len(of_sums) == (problem["segments"] if others else 0)
        assert {counts[key] for key in of_sums} <= {others}
    else:
        assert {counts[key] for key in of_sums} <= {1}


def fewest_crossings(nodes, held_on):
    """Messages between nodes, at least, of a tree whose root's sum is held there: of all ways."""
    may_hold = [{node} for node in nodes]  # of each sum; the ranks' own come first
    edges = []
    level = list(range(len(nodes)))
    while len(level) > 1:
        above = level[len(level) - len(level) % 2 :]  # has no right neighbour
        for left, right in reversed(list(zip(level[::2], level[1::2], strict=False))):
            edges += [(left, len(may_hold)), (right, len(may_hold))]
            above.insert(0, len(may_hold))
            may_hold.append(may_hold[left] | may_hold[right])
        level = above
    may_hold[-1] = {held_on}
    return min(
        sum(on[child] != on[parent] for child, parent in edges)
        for on in itertools.product(*may_hold)
    )


NODES = st.integers(2, 7).flatmap(
    lambda ranks: st.lists(st.integers(0, min(ranks - 1, 2)), min_size=ranks, max_size=ranks)
)


@settings(max_examples=150)
@given(NODES, st.sampled_from([1, 2]))
def test_the_reproducible_tree_crosses_as_rarely_as_it_can(nodes, cuts):
    ranks = len(nodes)
    schedule = pat.schedule("reproducible", ranks, cuts * ranks, nodes=nodes)

    pat.verify(schedule)  # that it is the tree's sum, too

    counts = entries(schedule, nodes)
    assert {count for key, count in counts.items() if key[2] == "recv"} <= {1}
    fewest = {node: fewest_crossings(nodes, node) for node in set(nodes)}
    for segment in range(cuts * ranks):
        into = {node for node in set(nodes) if (node, segment, "recv") in counts}
        (held_on,) = set(nodes) - into
        sums = sum(counts.get((node, segment, "recv_reduce"), 0) for node in set(nodes))
        assert sums == fewest[held_on]


def test_reproducible_moves_as_little_over_ports_as_any_where_nodes_are_subtrees():
    nodes = [rank // 4 for rank in range(16)]
    counts = entries(pat.schedule("reproducible", 16, 16, nodes=nodes), nodes)
    for node in range(4):
        into = sum(count for key, count in counts.items() if key[0] == node)
        assert into == 2 * 12  # 2 (N - 1) / N of 16 segments


@pytest.mark.parametrize("name", BY_NODE)
def test_a_rank_per_node_changes_nothing(name):
    arrivals_s = [0.3, 0.1, 0.4, 0.1, 0.5]
    nodes = [3, 1, 4, 0, 2]
    steps = pat.schedule(name, 5, 10, arrivals_s, segment_time_s=0.1).listing()
    by_node = pat.schedule(name, 5, 10, arrivals_s, segment_time_s=0.1, nodes=nodes)
    if name == "ring":  # by rounds, or part by part: the same sums
        assert by_node.sum_orders() == pat.schedule(name, 5, 10).sum_orders()
    else:
        assert by_node.listing() == steps


def test_what_it_looks_like():
    schedule = pat.schedule("slt", 4, 1, [0.0, 0.3, 0.1, 0.2], nodes=[0, 1, 0, 1])
    # In order of arrival 0, 2 | 3, 1: rank 1 has the sum, and hands it to rank 0 and to rank 3.
    assert schedule.sum_orders() == [[(((0, 2), 3), 1)]] * 4
    moved = {rank: [(step.verb, step.peer) for step in schedule.steps(rank)] for rank in range(4)}
    assert moved == {
        0: [("send", 2), ("recv", 1), ("send", 2)],
        2: [("recv_reduce", 0), ("send", 3), ("recv", 0)],
        3: [("recv_reduce", 2), ("send", 1), ("recv", 1)],
        1: [("recv_reduce", 3), ("send", 0), ("send", 3)],
    }


def network(nodes):
    return pat.Network(
        pat.Link(50e-6, PORT_BYTES_PER_S),
        nodes=nodes,
        within_node=pat.Link(5e-6, 5e9),
        uplink_bytes_per_s=PORT_BYTES_PER_S,
    )


@pytest.mark.parametrize(("count", "of_each"), [(4, 4), (2, 4), (3, 2)])
@pytest.mark.parametrize("name", ["ring", "prr"])
def test_together_it_takes_what_the_ports_need(name, count, of_each):
    nodes = [node for node in range(count) for _ in range(of_each)]
    ranks = len(nodes)
    schedule = pat.schedule(name, ranks, 4 * ranks, nodes=nodes)
    priced = pat.simulate(
        schedule, message_bytes=MESSAGE_BYTES, link=network(nodes), arrivals_s=[0.0] * ranks
    )
    limit_s = 2 * (count - 1) / count * TRANSFER_S
    assert limit_s <= priced.after_last_arrival_s <= 1.03 * limit_s


@pytest.mark.parametrize("late_ranks", [[5], [0], [15], [4, 5, 6, 7]])
@pytest.mark.parametrize(("name", "limit"), [("slt", 1.0), ("prr", 1.25)])  # a part starts late
def test_a_late_rank_or_node_costs_one_transfer(name, limit, late_ranks):
    nodes = [rank // 4 for rank in range(16)]
    drawn = random.Random(7)
    arrivals_s = [drawn.random() * TRANSFER_S for _ in nodes]
    for rank in late_ranks:
        arrivals_s[rank] += 4 * TRANSFER_S

    def after_s(of):
        how = {"segment_time_s": TRANSFER_S / 4} if name == "prr" else {}
        schedule = pat.schedule(name, 16, 64, arrivals_s, nodes=of, **how)
        return pat.simulate(
            schedule, message_bytes=MESSAGE_BYTES, link=network(nodes), arrivals_s=arrivals_s
        ).after_last_arrival_s

    assert limit * TRANSFER_S <= after_s(nodes) <= 1.06 * limit * TRANSFER_S
    assert after_s(None) > 2 * TRANSFER_S


def test_what_cannot_be_nodes():
    with pytest.raises(pat.ScheduleError, match=r"one node per rank \(3\), got 2"):
        pat.schedule("ring", 3, nodes=[0, 1])
    with pytest.raises(pat.ScheduleError, match=r"a node in 0\.\.2, got 3 for rank 1"):
        pat.schedule("ring", 3, nodes=[0, 3, 1])
