"""Levels, run as groups of sends and receives that end together, one group after the other."""

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Schedule, Step, _core

COLLECTIVES = ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"]
NAMES = [(collective, name) for collective in COLLECTIVES for name in pat.algorithms(collective)]


def groups_of(schedule, levels):
    """[rank] -> its groups, each the indices of its steps in program order."""
    groups = []
    for rank in range(schedule.ranks):
        at_level = defaultdict(list)
        for index, level in enumerate(levels[rank]):
            at_level[level].append(index)
        groups.append([at_level[level] for level in sorted(at_level)])
    return groups


def play(schedule, levels, seed=0):
    """Return [rank][segment] -> nested sums, or None after a deadlock.

    Knows ranks, groups and their order, but not the levels' numbers: the k-th message that a rank
    has posted to another goes into the k-th receive posted there, and a group is over once all its
    messages are. Received data is applied after the group.
    """
    groups = groups_of(schedule, levels)
    choose = random.Random(seed).choice
    held = [[rank] * schedule.segments for rank in range(schedule.ranks)]
    sends, receives = defaultdict(list), defaultdict(list)  # posted and not yet matched
    landed = [{} for _ in held]
    open_messages = [0] * schedule.ranks
    left = [list(reversed(row)) for row in groups]
    current = [None] * schedule.ranks

    def post(rank):
        current[rank] = left[rank].pop()
        open_messages[rank] = len(current[rank])
        touched = set()
        for index in current[rank]:
            step = schedule.steps(rank)[index]
            sent = step.verb == "send"
            pair = (rank, step.peer) if sent else (step.peer, rank)
            (sends if sent else receives)[pair].append((rank, index))
            touched.add(pair)
        for pair in sorted(touched):
            while sends[pair] and receives[pair]:
                (sender, at), (receiver, to) = sends[pair].pop(0), receives[pair].pop(0)
                step = schedule.steps(sender)[at]
                landed[receiver][to] = held[sender][step.first : step.last]
                open_messages[sender] -= 1
                open_messages[receiver] -= 1

    def apply(rank):
        for index in current[rank]:
            step = schedule.steps(rank)[index]
            if step.verb == "send":
                continue
            for segment, value in zip(
                range(step.first, step.last), landed[rank].pop(index), strict=True
            ):
                mine = held[rank][segment]
                held[rank][segment] = value if step.verb == "recv" else (value, mine)
        current[rank] = None

    while any(left) or any(group is not None for group in current):
        over = [rank for rank in range(schedule.ranks) if current[rank] and not open_messages[rank]]
        idle = [rank for rank in range(schedule.ranks) if current[rank] is None and left[rank]]
        if not over and not idle:
            return None
        rank = choose(over + idle)
        apply(rank) if rank in over else post(rank)
    return held


def canonical_rows(rows, canonical_order):
    return [[canonical_order(order) for order in row] for row in rows]


def assert_played_right(schedule, ports, seed, canonical_order):
    count, levels = _core.levels(schedule, ports)

    held = play(schedule, levels, seed)

    assert held is not None, "deadlock"
    expected = canonical_rows(schedule.sum_orders(), canonical_order)
    assert canonical_rows(held, canonical_order) == expected
    used = {level for row in levels for level in row}
    assert used == set(range(count))
    return levels


@pytest.mark.parametrize(("collective", "name"), NAMES)
@settings(max_examples=25, derandomize=True, database=None)
@given(data=st.data())
def test_groups_give_the_schedules_own_sums(collective, name, data, canonical_order):
    ranks = data.draw(st.integers(1, 9))
    segments = data.draw(st.integers(1, 2 * ranks + 1))
    arrivals_s = data.draw(st.lists(st.floats(0, 4), min_size=ranks, max_size=ranks))
    ports = data.draw(st.sampled_from([1, 1, 2, 100]))
    of_each = data.draw(st.sampled_from([1, 1, 2, 3]))
    schedule = pat.schedule(
        name,
        ranks,
        segments,
        arrivals_s,
        collective=collective,
        segment_time_s=0.3,
        nodes=[rank // of_each for rank in range(ranks)],
    )

    levels = assert_played_right(schedule, ports, segments, canonical_order)

    if ports == 1:
        assert_one_port(schedule, levels)


def assert_one_port(schedule, levels):
    """One message each way and level: the shipped algorithms exchange along whole cycles only."""
    for rank, row in enumerate(levels):
        ways = Counter(
            (level, step.verb == "send")
            for level, step in zip(row, schedule.steps(rank), strict=True)
        )
        assert set(ways.values()) <= {1}


@settings(max_examples=150, derandomize=True, database=None)
@given(data=st.data())
def test_any_messages_written_down_one_after_the_other_have_groups(data, canonical_order):
    """Such schedules need no collective: what the groups have to keep is the ordering rule."""
    ranks, segments = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 4))
    steps = [[] for _ in range(ranks)]
    for _ in range(data.draw(st.integers(0, 25))):
        sender, receiver = data.draw(st.permutations(range(ranks)))[:2]
        first = data.draw(st.integers(0, segments - 1))
        last = data.draw(st.integers(first + 1, segments))
        verb = data.draw(st.sampled_from(["recv", "recv_reduce"]))
        steps[sender].append(Step("send", receiver, first, last))
        steps[receiver].append(Step(verb, sender, first, last))
    schedule = Schedule.from_steps(steps, segments)

    assert_played_right(schedule, data.draw(st.integers(1, 3)), 0, canonical_order)


@pytest.mark.parametrize(
    ("name", "segments", "expected"),
    [
        ("ring", 8, 14),  # 2 * (P - 1): every port is busy at every level
        ("ring", 32, 56),
        ("slt", 8, 21),  # S + 2P - 3 of the chain up and down, and ports that are both ways
        ("slt", 32, 69),
        ("rabenseifner", 8, 6),  # 2 * log2(P) exchanges
        ("reproducible", 8, 14),
    ],
)
def test_levels_of_eight_ranks(name, segments, expected):
    count, levels = _core.levels(pat.schedule(name, 8, segments))

    assert count == expected
    assert [len(row) for row in levels] == [
        len(pat.schedule(name, 8, segments).steps(rank)) for rank in range(8)
    ]


def test_more_ports_need_no_more_levels():
    schedule = pat.schedule("slt", 8, 32)

    counts = [_core.levels(schedule, ports)[0] for ports in (1, 2, 4, 1000)]

    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 14  # a hop is a level, once every segment may travel with the others


def test_an_exchange_is_one_level():
    steps = [[Step("send", 1 - r, 0, 1), Step("recv_reduce", 1 - r, 0, 1)] for r in range(2)]

    assert _core.levels(Schedule.from_steps(steps, 1)) == (1, [[0, 0], [0, 0]])


def test_an_exchange_in_a_circle_is_one_level_whatever_the_ports():
    steps = [[Step("send", (r + 1) % 3, 0, 1), Step("recv", (r + 2) % 3, 0, 1)] for r in range(3)]

    assert _core.levels(Schedule.from_steps(steps, 1)) == (1, [[0, 0]] * 3)


def test_nothing_to_do_has_no_level():
    assert _core.levels(pat.schedule("ring", 1, 4)) == (0, [[]])


def test_a_schedule_without_groups_is_named():
    """Rank 1 would have to keep rank 0's message aside until rank 2's, which it led to, has come.

    Transports with tags can do that, so the schedule is right.
    """
    steps = [
        [Step("send", 1, 0, 1), Step("recv", 1, 0, 1), Step("send", 2, 0, 1)],
        [Step("send", 0, 0, 1), Step("recv", 2, 0, 1), Step("recv", 0, 0, 1)],
        [Step("recv", 0, 0, 1), Step("send", 1, 0, 1)],
    ]
    schedule = Schedule.from_steps(steps, 1)
    assert schedule.sum_orders()

    with pytest.raises(pat.ScheduleError, match=r"^no groups: rank \d step \d \(send -> \d seg"):
        _core.levels(schedule)


def test_deadlock_and_unmatched_messages_are_refused():
    circle = [[Step("recv", 1 - r, 0, 1), Step("send", 1 - r, 0, 1)] for r in range(2)]
    with pytest.raises(pat.ScheduleError, match="no groups: rank"):
        _core.levels(Schedule.from_steps(circle, 1))
    with pytest.raises(pat.ScheduleError, match="never takes this message"):
        _core.levels(Schedule.from_steps([[Step("send", 1, 0, 1)], []], 1))
    with pytest.raises(pat.ScheduleError, match="ports >= 1, got 0"):
        _core.levels(pat.schedule("ring", 2), 0)
