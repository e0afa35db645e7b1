"""Lanes: both ends of a message in one, and receives apart from sends wherever that is possible."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Schedule, Step, _core
from tests.schedule.test_levels import NAMES


def messages_of(schedule):
    """(sender, its step, receiver, its step): the k-th send goes into the k-th receive."""
    sends = defaultdict(list)
    for rank in range(schedule.ranks):
        for index, step in enumerate(schedule.steps(rank)):
            if step.verb == "send":
                sends[rank, step.peer].append(index)
    for rank in range(schedule.ranks):
        for index, step in enumerate(schedule.steps(rank)):
            if step.verb != "send":
                yield step.peer, sends[step.peer, rank].pop(0), rank, index


def groups_of(schedule, lanes):
    """(rank, level, lane) -> the verbs of that group, a receive being one whatever it does."""
    _, levels = _core.levels(schedule)
    of_step = _core.lanes(schedule, lanes)
    groups = defaultdict(set)
    for rank in range(schedule.ranks):
        for index, step in enumerate(schedule.steps(rank)):
            group = rank, levels[rank][index], of_step[rank][index]
            groups[group].add("send" if step.verb == "send" else "receive")
    return groups


def mixed(schedule, lanes):
    return sum(len(verbs) == 2 for verbs in groups_of(schedule, lanes).values())


@st.composite
def schedules(draw):
    """Any messages between up to six ranks, for which there are levels."""
    ranks, segments = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    steps = [[] for _ in range(ranks)]
    for _ in range(draw(st.integers(1, 25))):
        sender, receiver = draw(st.permutations(range(ranks)))[:2]
        first = draw(st.integers(0, segments - 1))
        last = draw(st.integers(first + 1, segments))
        steps[sender].append(Step("send", receiver, first, last))
        verb = draw(st.sampled_from(["recv", "recv_reduce"]))
        steps[receiver].append(Step(verb, sender, first, last))
    return Schedule.from_steps(steps, segments, collective="all_reduce")


@settings(max_examples=150)
@given(schedules(), st.integers(1, 4))
def test_both_ends_of_a_message_have_one_lane(schedule, lanes):
    of_step = _core.lanes(schedule, lanes)

    assert all(0 <= lane < lanes for row in of_step for lane in row)
    for sender, sent, receiver, taken in messages_of(schedule):
        assert of_step[sender][sent] == of_step[receiver][taken]
    assert of_step == _core.lanes(schedule, lanes)


@settings(max_examples=150)
@given(schedules())
def test_messages_of_one_kind_between_two_ranks_keep_their_order(schedule):
    """A flow has one lane, so ranks that post in order match in order."""
    of_step = _core.lanes(schedule, 2)
    flows = defaultdict(set)
    for sender, sent, receiver, taken in messages_of(schedule):
        flows[sender, receiver, schedule.steps(receiver)[taken].verb].add(of_step[sender][sent])
    assert all(len(lanes) == 1 for lanes in flows.values())


@settings(max_examples=150)
@given(schedules())
def test_lanes_separate_and_never_join(schedule):
    """More of them do not mix more, counted as pairs of a receive and a send in one group."""

    def pairs(lanes):
        of_step = _core.lanes(schedule, lanes)
        _, levels = _core.levels(schedule)
        flows = defaultdict(lambda: (set(), set()))
        for sender, sent, receiver, taken in messages_of(schedule):
            flow = sender, receiver, schedule.steps(receiver)[taken].verb
            lane = of_step[sender][sent]
            flows[sender, levels[sender][sent], lane][0].add(flow)
            flows[receiver, levels[receiver][taken], lane][1].add(flow)
        return sum(len(sent) * len(received) for sent, received in flows.values())

    assert pairs(2) <= pairs(1)


@pytest.mark.parametrize("ranks", range(2, 10))
@pytest.mark.parametrize("name", ["slt", "ring"])
def test_chains_and_rings_need_two_lanes_or_three_for_an_odd_number_of_ranks(name, ranks):
    for segments in (ranks, 2 * ranks, 16 * ranks):
        schedule = pat.schedule(name, ranks, segments, [float(n) for n in range(ranks)])
        assert mixed(schedule, 1) > 0
        assert mixed(schedule, _core.lanes_for(ranks)) == 0
    assert _core.lanes_for(ranks) == 2 + ranks % 2


def test_a_ring_of_an_odd_number_of_ranks_stays_mixed_somewhere_in_two_lanes():
    schedule = pat.schedule("ring", 5, 5)
    assert 0 < mixed(schedule, 2) < mixed(schedule, 1)


@pytest.mark.parametrize(("collective", "name"), NAMES)
def test_every_algorithm(collective, name):
    """Of eight ranks: at most a tenth of the groups is left that both receives and sends."""
    schedule = pat.schedule(name, 8, 16, [0.0] * 7 + [1.0], collective=collective)
    one, two = (groups_of(schedule, lanes) for lanes in (1, 2))
    assert {group[:2] for group in two} == {group[:2] for group in one}
    assert 10 * mixed(schedule, 2) <= len(two)


def test_one_lane_holds_everything():
    schedule = pat.schedule("slt", 4, 8)
    assert {lane for row in _core.lanes(schedule, 1) for lane in row} == {0}
    assert _core.lanes_for(1) == 1
    with pytest.raises(pat.ScheduleError, match="expected lanes >= 1, got 0"):
        _core.lanes(schedule, 0)
