"""When would the groups and sums of stream programs run? A model for pictures, measured nowhere.

A group starts when the group before it in its lane, and what it waits for, are over; its messages
move once the peers' groups have started, too; it ends with its last message. A message, and a sum,
takes time by its segments alone. So links have no latency, do not share, and kernels start at once.

Why not the clock of `patallreduce.simulate`: there messages leave one by one through shared ports.
For 8 ranks the last result comes at the same time here with two lanes, but in two_tree, whose links
are not shared here (0.74 of the clock's time); a lane alone makes groups wait for groups: slt with
one rank late by a transfer takes 1.39 of the clock's time, clairvoyant 1.45.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.gpu.stages import SUMS, Group, Item, Stage, Transfer, waits

_At = tuple[int, Item]  # rank, its group


@dataclass(frozen=True)
class MessageTime:
    """When a message moves."""

    sends: bool
    transfer: Transfer
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class GroupTime:
    """A group, which occupies its GPU from its start to its end, and its messages."""

    item: Item
    start_s: float
    end_s: float
    messages: tuple[MessageTime, ...]


@dataclass(frozen=True)
class SumTime:
    """The sums of a stage."""

    stage: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class RankTimes:
    """What one rank's streams do, lane by lane in order, and when its result is at home."""

    groups: tuple[GroupTime, ...]  # by lane
    sums: tuple[SumTime, ...]
    result_s: float


def stream_times(
    stages: Sequence[Sequence[Stage]],
    results: Sequence[tuple[int, Sequence[Item]]],
    arrivals_s: Sequence[float],
    *,
    queued_s: float,
    segment_s: float,
    sum_s: float,
) -> list[RankTimes]:
    """Lay out the programs of all ranks in time.

    Args:
        stages: [rank][stage], of one schedule.
        results: (P,) the stage behind whose sums, and the groups behind which, a rank's result is
            there.
        arrivals_s: (P,) when the producing stream reaches the collective, seconds.
        queued_s: When the hosts queue it; no group starts before.
        segment_s: A segment's time from rank to rank.
        sum_s: A segment's time to be summed.

    Raises:
        ValueError: The programs do not fit together: a message has one end only.
    """
    peers = _peers(stages)
    own = [
        _Rank(of_rank, result, max(arrival_s, queued_s), queued_s, sum_s)
        for of_rank, result, arrival_s in zip(stages, results, arrivals_s, strict=True)
    ]
    moving = True
    while moving:
        moving = False
        for rank, one in enumerate(own):
            moving |= one.start_groups() or one.run_sums()
            for item, start_s in list(one.started_s.items()):
                messages = peers[rank, item]
                if any(at not in own[peer].start_s for (peer, at), _, _ in messages):
                    continue
                moved = []
                for (peer, at), sends, transfer in messages:
                    begin_s = max(start_s, own[peer].start_s[at])
                    end_s = begin_s + (transfer.last - transfer.first) * segment_s
                    moved.append(MessageTime(sends, transfer, begin_s, end_s))
                one.end_group(item, moved)
                moving = True
    if any(one.left for one in own):
        raise ValueError("expected programs of one schedule: their groups wait for each other")
    return [one.times() for one in own]


class _Rank:
    """One rank's streams, piece by piece."""

    def __init__(
        self,
        stages: Sequence[Stage],
        result: tuple[int, Sequence[Item]],
        arrival_s: float,
        queued_s: float,
        sum_s: float,
    ) -> None:
        self.start_s: dict[Item, float] = {}  # of all groups so far
        self.started_s: dict[Item, float] = {}  # and not over
        self._stages = stages
        self._waits = waits(stages)
        self._result_stage, self._result_groups = result
        self._sum_s = sum_s
        self._groups: dict[int, list[GroupTime]] = {}
        self._sums: list[SumTime] = []
        self._lanes: dict[int, deque[Item]] = {}
        for stage in stages:
            for group in stage.groups:
                self._lanes.setdefault(group.lane, deque()).append(Item(group.lane, stage.number))
        self._lane_s = dict.fromkeys(self._lanes, queued_s)  # until then it is busy
        self._sums_s = arrival_s  # the first wait is for the arrival
        self._next_sums = 0
        self._over_s: dict[Item, float] = {}
        self._result_s = math.nan
        self.run_sums()

    @property
    def left(self) -> bool:
        """Whether something has not run."""
        return any(self._lanes.values()) or self._next_sums < len(self._stages)

    def times(self) -> RankTimes:
        groups = [one for lane in sorted(self._groups) for one in self._groups[lane]]
        return RankTimes(tuple(groups), tuple(self._sums), self._result_s)

    def start_groups(self) -> bool:
        """Start what heads a lane and need not wait any more; whether there was some."""
        before = len(self.start_s)
        for lane, left in self._lanes.items():
            if not left or left[0] in self.start_s:
                continue
            over_s = self._over(self._waits.get(left[0], ()))
            if over_s is not None:
                start_s = max(self._lane_s[lane], over_s)
                self.start_s[left[0]] = self.started_s[left[0]] = start_s
        return len(self.start_s) > before

    def end_group(self, item: Item, messages: Sequence[MessageTime]) -> None:
        end_s = max(one.end_s for one in messages)
        start_s = self.started_s.pop(item)
        self._groups.setdefault(item.lane, []).append(
            GroupTime(item, start_s, end_s, tuple(messages))
        )
        self._lane_s[item.lane] = self._over_s[item] = end_s
        self._lanes[item.lane].popleft()

    def run_sums(self) -> bool:
        """Run the next sums if they need not wait any more; whether there were some."""
        before = self._next_sums
        while self._next_sums < len(self._stages):
            stage = self._stages[self._next_sums]
            is_result = stage.number == self._result_stage
            ready_s = self._over(self._waits.get(Item(SUMS, stage.number), ()))
            home_s = self._over(self._result_groups if is_result else ())
            if ready_s is None or home_s is None:
                break
            segments = sum(one.last - one.first for one in stage.sums)
            if segments:
                start_s = max(self._sums_s, ready_s)
                self._sums_s = start_s + segments * self._sum_s
                self._sums.append(SumTime(stage.number, start_s, self._sums_s))
            if is_result:
                self._result_s = self._sums_s = max(self._sums_s, home_s)
            self._over_s[Item(SUMS, stage.number)] = self._sums_s
            self._next_sums += 1
        return self._next_sums > before

    def _over(self, items: Sequence[Item]) -> float | None:
        """When all of them are over; None: that is not known yet."""
        if any(item not in self._over_s for item in items):
            return None
        return max((self._over_s[item] for item in items), default=-math.inf)


def _peers(
    stages: Sequence[Sequence[Stage]],
) -> dict[_At, list[tuple[_At, bool, Transfer]]]:
    """Rank and group -> per message: its other end, whether it is sent, itself.

    NCCL's rule: a lane's k-th message to a rank goes into that rank's k-th receive from here.
    """
    ends: dict[tuple[int, int, int, bool], list[tuple[_At, Transfer]]] = defaultdict(list)
    for rank, of_rank in enumerate(stages):
        for stage in of_rank:
            for group in stage.groups:
                _note_ends(ends, rank, Item(group.lane, stage.number), group)
    found: dict[_At, list[tuple[_At, bool, Transfer]]] = defaultdict(list)
    for sender, receiver, lane in sorted({key[:3] for key in ends}):
        sent, received = (ends[sender, receiver, lane, sends] for sends in (True, False))
        if [(t.first, t.last) for _, t in sent] != [(t.first, t.last) for _, t in received]:
            raise ValueError(
                f"expected programs of one schedule: rank {sender} sends rank {receiver} other "
                "messages than that receives"
            )
        for (here, one), (there, other) in zip(sent, received, strict=True):
            found[here].append((there, True, one))
            found[there].append((here, False, other))
    return found


def _note_ends(
    ends: dict[tuple[int, int, int, bool], list[tuple[_At, Transfer]]],
    rank: int,
    item: Item,
    group: Group,
) -> None:
    for one in group.sends:
        ends[rank, one.peer, item.lane, True].append(((rank, item), one))
    for one in group.receives:
        ends[one.peer, rank, item.lane, False].append(((rank, item), one))
