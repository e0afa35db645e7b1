"""When would the groups and sums of stream programs run? A model for pictures, measured nowhere.

A group starts when the group before it and the sums it waits for are over; its messages move once
the peers' groups have started, too; it ends with its last message. A message, and a sum, takes time
by its segments alone. So links have no latency, do not share, and kernels start at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.stream_stages import Stage, Transfer, waits

_Place = tuple[int, int]  # rank, stage


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

    stage: int
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
    """What one rank's two streams do, in order, and when its result is at home."""

    groups: tuple[GroupTime, ...]
    sums: tuple[SumTime, ...]
    result_s: float


def stream_times(
    stages: Sequence[Sequence[Stage]],
    result_stages: Sequence[int],
    arrivals_s: Sequence[float],
    *,
    queued_s: float,
    segment_s: float,
    sum_s: float,
) -> list[RankTimes]:
    """Lay out the programs of all ranks in time.

    Args:
        stages: [rank][stage], of one schedule.
        result_stages: (P,) the stage behind which a rank's result is there.
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
        for of_rank, result, arrival_s in zip(stages, result_stages, arrivals_s, strict=True)
    ]
    start_s: dict[_Place, float] = {}
    left = {rank for rank, of_rank in enumerate(stages) if len(of_rank) > 1}
    while left:
        before = len(start_s)
        for rank in left:
            start_s.setdefault((rank, own[rank].next), own[rank].next_start_s)
        ended = False
        for rank in sorted(left):
            messages = peers[rank, own[rank].next]
            if any(peer not in start_s for peer, _, _ in messages):
                continue
            start = start_s[rank, own[rank].next]
            moved = []
            for peer, sends, one in messages:
                begin_s = max(start, start_s[peer])
                end_s = begin_s + (one.last - one.first) * segment_s
                moved.append(MessageTime(sends, one, begin_s, end_s))
            own[rank].end_group(start, moved)
            ended = True
        left = {rank for rank in left if own[rank].next < len(stages[rank])}
        if not ended and len(start_s) == before:
            raise ValueError("expected programs of one schedule: their groups wait for each other")
    return [RankTimes(tuple(one.groups), tuple(one.sums), one.result_s) for one in own]


class _Rank:
    """One rank's streams, group by group."""

    def __init__(
        self,
        stages: Sequence[Stage],
        result_stage: int,
        arrival_s: float,
        queued_s: float,
        sum_s: float,
    ) -> None:
        self.groups: list[GroupTime] = []
        self.sums: list[SumTime] = []
        self.next = 1
        self._stages = stages
        self._waits = waits(stages)
        self._result_stage = result_stage
        self._sum_s = sum_s
        self._messages_s = queued_s  # until then each stream is busy
        self._sums_s = arrival_s  # its first wait is for the arrival
        self._summed_s: dict[int, float] = {}
        self.result_s = math.nan
        self._run_sums(0)

    @property
    def next_start_s(self) -> float:
        """When the next group can start, as far as this rank is concerned."""
        awaited = self._waits.get(self.next)
        return max(self._messages_s, 0 if awaited is None else self._summed_s[awaited])

    def end_group(self, start_s: float, messages: Sequence[MessageTime]) -> None:
        self._messages_s = max(one.end_s for one in messages)
        self.groups.append(GroupTime(self.next, start_s, self._messages_s, tuple(messages)))
        self._run_sums(self.next)
        self.next += 1

    def _run_sums(self, stage: int) -> None:
        segments = sum(one.last - one.first for one in self._stages[stage].sums)
        if segments or stage == self._result_stage:
            self._sums_s = max(self._sums_s, self._messages_s if stage else self._sums_s)
        if segments:
            start_s, self._sums_s = self._sums_s, self._sums_s + segments * self._sum_s
            self.sums.append(SumTime(stage, start_s, self._sums_s))
        self._summed_s[stage] = self._sums_s
        if stage == self._result_stage:
            self.result_s = self._sums_s


def _peers(
    stages: Sequence[Sequence[Stage]],
) -> dict[_Place, list[tuple[_Place, bool, Transfer]]]:
    """(rank, stage) -> per message of its group: its other end, whether it is sent, itself.

    NCCL's rule: the k-th message to a rank goes into that rank's k-th receive from here.
    """
    ends: dict[tuple[int, int, bool], list[tuple[_Place, Transfer]]] = defaultdict(list)
    for rank, of_rank in enumerate(stages):
        for stage in of_rank:
            place = rank, stage.number
            for one in stage.sends:
                ends[rank, one.peer, True].append((place, one))
            for one in stage.receives:
                ends[one.peer, rank, False].append((place, one))
    found: dict[_Place, list[tuple[_Place, bool, Transfer]]] = defaultdict(list)
    for sender, receiver in sorted({pair[:2] for pair in ends}):
        sent, received = ends[sender, receiver, True], ends[sender, receiver, False]
        if [(t.first, t.last) for _, t in sent] != [(t.first, t.last) for _, t in received]:
            raise ValueError(
                f"expected programs of one schedule: rank {sender} sends rank {receiver} other "
                "messages than that receives"
            )
        for (here, one), (there, other) in zip(sent, received, strict=True):
            found[here].append((there, True, one))
            found[there].append((here, False, other))
    return found
