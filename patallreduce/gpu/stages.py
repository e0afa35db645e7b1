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


class Place(NamedTuple):
    """The group of a lane, or with `SUMS` the sums, of a stage."""

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
    """Messages of one lane; `after`: the stage whose sums it waits for, -1 for none.

    `behind`: the groups of other lanes that it waits for.
    """

    lane: int
    after: int
    behind: tuple[Place, ...]
    sends: tuple[Transfer, ...]
    receives: tuple[Transfer, ...]


@dataclass(frozen=True)
class Stage:
    """Its groups, by lane, and its sums, which wait for the groups `behind`."""

    number: int
    region: int
    groups: tuple[Group, ...]
    behind: tuple[Place, ...]
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
            tuple(Place(*row) for row in behind),
            tuple(Sum(*row) for row in sums),
        )
        for number, (region, groups, behind, sums) in enumerate(program.stages)
    ]


def results_of(program: _core.StreamProgram) -> tuple[int, list[Place]]:
    """The stage behind whose sums, and the groups behind which, the result is there."""
    return program.result_stage, [Place(*row) for row in program.result_behind]


def _group(
    lane: int,
    after: int,
    behind: Sequence[tuple[int, int]],
    sends: Sequence[_core.Message],
    receives: Sequence[_core.Message],
) -> Group:
    return Group(
        lane,
        after,
        tuple(Place(*row) for row in behind),
        tuple(Transfer(*row) for row in sends),
        tuple(Transfer(*row) for row in receives),
    )


def waits(stages: Sequence[Stage]) -> dict[Place, list[Place]]:
    """Groups and sums -> what they wait for, where nothing earlier on their stream has done so.

    The executor queues these waits and no others: a stream runs in order, so a wait holds for all
    that comes behind it. Sums of stage 0: the arrival.
    """
    found: dict[Place, list[Place]] = {}
    known: dict[tuple[int, int], int] = {}  # a stream has waited for another, as far as this stage

    def note(waiter: Place, awaited: Sequence[Place]) -> None:
        for one in awaited:
            if one.stage > known.get((waiter.lane, one.lane), -1):
                known[waiter.lane, one.lane] = one.stage
                found.setdefault(waiter, []).append(one)

    for stage in stages:
        for group in stage.groups:
            after = [Place(SUMS, group.after)] if group.after >= 0 else []
            note(Place(group.lane, stage.number), [*after, *group.behind])
        if stage.sums:
            note(Place(SUMS, stage.number), stage.behind)
    return found
