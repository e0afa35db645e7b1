"""Ports that differ: what is chosen, planned and bounded."""

import pytest

import patallreduce as pat
from patallreduce import _core

ELEMENTS = 1 << 20
MESSAGE_BYTES = 4 * ELEMENTS
# The last rank's port is half as wide: the others' 25 MB/s.
LINK = pat.Link(100e-6, 12.5e6, ports=(2.0,) * 7 + (1.0,))
NARROW_S = MESSAGE_BYTES / LINK.bytes_per_s
ALIKE = pat.Link(100e-6, 12.5e6)


def on_these_ports(choice, arrivals_s):
    name, segments, hints, segment_time_s, _ = choice
    algorithm = _core.find_algorithm(name, "all_reduce")
    schedule = pat.schedule(
        name,
        8,
        segments,
        hints or None,
        segment_time_s=segment_time_s,
        ports=LINK.ports if algorithm.by_port else None,
    )
    return pat.simulate(schedule, LINK, MESSAGE_BYTES, arrivals_s)


def test_together_all_exchange_directly():
    """A ring takes 2 (P - 1)/P of what the narrow port needs; its limit is once."""
    choice = _core.Selector(8, LINK).choose(ELEMENTS, 4, [0.0] * 8)
    assert choice[0] == "direct_exchange"
    assert on_these_ports(choice, [0.0] * 8).finish_s[0] <= 1.1 * NARROW_S
    assert _core.Selector(8, LINK).choose_beside_others(ELEMENTS, 4)[0] == "direct_exchange"
    for select in (_core.Selector(8, ALIKE), _core.Selector(8, pat.Link(1e-4, 25e6))):
        assert select.choose(ELEMENTS, 4, [0.0] * 8)[0] == "ring"
        assert select.choose_beside_others(ELEMENTS, 4)[0] == "ring"


@pytest.mark.parametrize("late", [0, 7])
def test_with_a_late_rank_too(late):
    arrivals_s = [0.0] * 8
    arrivals_s[late] = 0.5
    choice = _core.Selector(8, LINK).choose(ELEMENTS, 4, arrivals_s)
    assert on_these_ports(choice, arrivals_s).after_last_arrival_s <= 1.15 * NARROW_S


def test_a_job_needs_no_plan_for_it_and_a_late_rank_gets_one():
    planner = _core.Planner(8, LINK)
    sizes = [(ELEMENTS // 4, 4)] * 4
    rows = [[0.05 * (bucket + 1)] * 8 for bucket in range(4)]
    keys, pace_s, plain_pace_s = planner.plan(sizes, rows, [], [0.2] * 8)
    assert keys == []
    assert pace_s == plain_pace_s
    assert 0.2 + NARROW_S * 0.5 <= pace_s <= 0.2 + 1.2 * NARROW_S


def test_the_bound_knows_ports():
    links = [pat.Link(100e-6, 12.5e6 * port) for port in LINK.ports]
    arrivals_s = [[0.1 * rank for rank in range(8)]]
    of_link = pat.lower_bound(LINK, [MESSAGE_BYTES], arrivals_s)
    of_network = pat.lower_bound(pat.Network(links), [MESSAGE_BYTES], arrivals_s)
    assert of_link.last_finish_s == pytest.approx(of_network.last_finish_s, rel=1e-3)
    assert of_link.last_finish_s < pat.lower_bound(ALIKE, [MESSAGE_BYTES], arrivals_s).last_finish_s


@pytest.mark.parametrize(
    ("ports", "message"),
    [((2.0, 3.0), "1 for the narrowest"), ((1.0, 0.0), "number > 0"), ((1.0, -1.0), "number > 0")],
)
def test_ports_of_a_link_that_make_no_sense(ports, message):
    with pytest.raises(ValueError, match=message):
        pat.Link(1e-4, 1e9, ports=ports)


def test_a_link_of_other_ranks_is_refused():
    for make in (_core.Selector, _core.Planner):
        with pytest.raises(pat.ScheduleError, match="one port for each of 7, got 8"):
            make(7, LINK)
    with pytest.raises(pat.ScheduleError, match="one port for each of 3, got 8"):
        pat.lower_bound(LINK, [1], [[0.0] * 3])


def test_ports_by_node():
    """Of nodes, where ranks share any."""
    link = pat.Link(100e-6, 12.5e6, ports=(1.0, 2.0, 2.0))
    selector = _core.Selector(6, link, [0, 0, 1, 1, 2, 2])
    assert selector.choose(ELEMENTS, 4, [0.0] * 6)[0] == "direct_exchange"
    with pytest.raises(pat.ScheduleError, match="one port for each of 2, got 3"):
        _core.Selector(6, link, [0, 0, 0, 1, 1, 1])
