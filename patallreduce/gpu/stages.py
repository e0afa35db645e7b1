"""A stream program as Python reads it: its stages, and which group waits for which sums.

Stage s is a group of messages per lane, each lane a stream of its own, and the sums of what they
brought on the stream `sums`; stage 0 has no group, it is the arrival. See csrc/gpu/nccl/program.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from patallreduce import _core

HOME, SCRATCH, SHADOW = "home", "scratch", "shadow"
SUMS = -1  # the stream of sums, where a lane is named


class Item(NamedTuple):
    """What one stream does for one stage: the group of a lane, or with `SUMS` the sums."""

    lane: int
    stage: int


@dataclass(frozen=True)
class Transfer:
    """Segments [first, last) of one message to or from `peer`, and the memory they lie in here."""

    peer: int
    first: int
    last: int
    memory: str


@dataclass(frozen=True)
class Sum:
    """`out` (and `also`) = `received` OP `held`; with `held` empty a copy of `received`."""

    first: int
    last: int
    out: str
    also: str
    received: str
    receive: int
    held: str
    callers: bool


@dataclass(frozen=True)
class Group:
    """Messages of one lane.

    It waits for the sums of stage `awaited_sums`, -1 for none, and for groups of other lanes.
    """

    lane: int
    awaited_sums: int
    awaited_groups: tuple[Item, ...]
    sends: tuple[Transfer, ...]
    receives: tuple[Transfer, ...]


@dataclass(frozen=True)
class Stage:
    """Its groups, by lane, and its sums, which wait for `awaited_groups`."""

    number: int
    region: int
    groups: tuple[Group, ...]
    awaited_groups: tuple[Item, ...]
    sums: tuple[Sum, ...]

    @property
    def sends(self) -> list[Transfer]:
        """Of all lanes."""
        return [one for group in self.groups for one in group.sends]

    @property
    def receives(self) -> list[Transfer]:
        """Of all lanes."""
        return [one for group in self.groups for one in group.receives]


def stages_of(program: _core.StreamProgram) -> list[Stage]:
    """The stages of a program, stage 0 first."""
    return [
        Stage(
            number,
            region,
            tuple(_group(*row) for row in groups),
            tuple(Item(*row) for row in awaited_groups),
            tuple(Sum(*row) for row in sums),
        )
        for number, (region, groups, awaited_groups, sums) in enumerate(program.stages)
    ]


def results_of(program: _core.StreamProgram) -> tuple[int, list[Item]]:
    """The stage behind whose sums, and the groups behind which, the result is there."""
    return program.result_stage, [Item(*row) for row in program.result_groups]


def _group(
    lane: int,
    awaited_sums: int,
    awaited_groups: Sequence[tuple[int, int]],
    sends: Sequence[_core.Message],
    receives: Sequence[_core.Message],
) -> Group:
    return Group(
        lane,
        awaited_sums,
        tuple(Item(*row) for row in awaited_groups),
        tuple(Transfer(*row) for row in sends),
        tuple(Transfer(*row) for row in receives),
    )


def waits(stages: Sequence[Stage]) -> dict[Item, list[Item]]:
    """Groups and sums -> what they wait for, where nothing earlier on their stream has done so.

    The executor queues these waits and no others: a stream runs in order, so a wait holds for all
    that is queued behind it. Sums of stage 0: the arrival.
    """
    found: dict[Item, list[Item]] = {}
    known: dict[tuple[int, int], int] = {}  # a stream has waited for another, as far as this stage

    def note(waiter: Item, awaited: Sequence[Item]) -> None:
        for one in awaited:
            if one.stage > known.get((waiter.lane, one.lane), -1):
                known[waiter.lane, one.lane] = one.stage
                found.setdefault(waiter, []).append(one)

    for stage in stages:
        for group in stage.groups:
            sums = [Item(SUMS, group.awaited_sums)] if group.awaited_sums >= 0 else []
            note(Item(group.lane, stage.number), [*sums, *group.awaited_groups])
        if stage.sums:
            note(Item(SUMS, stage.number), stage.awaited_groups)
    return found
