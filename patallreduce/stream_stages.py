"""A stream program as Python reads it: its stages, and which group waits for which sums.

Stage s is a group of messages on the stream `messages`, and the sums of what it brought on the
stream `sums`; stage 0 has no group, it is the arrival. See csrc/streams/program.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce import _core

HOME, SCRATCH, SHADOW = "home", "scratch", "shadow"


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
class Stage:
    """A group and its sums; `after`: the stage whose sums the group waits for, -1 for none."""

    number: int
    after: int
    region: int
    sends: tuple[Transfer, ...]
    receives: tuple[Transfer, ...]
    sums: tuple[Sum, ...]


def stages_of(program: _core.StreamProgram) -> list[Stage]:
    """The stages of a program, stage 0 first."""
    return [
        Stage(
            number,
            after,
            region,
            tuple(Transfer(*row) for row in sends),
            tuple(Transfer(*row) for row in receives),
            tuple(Sum(*row) for row in sums),
        )
        for number, (after, region, sends, receives, sums) in enumerate(program.stages)
    ]


def waits(stages: Sequence[Stage]) -> dict[int, int]:
    """Group -> the stage whose sums it waits for, where no earlier group has waited for them.

    The executor queues these waits and no others: a stream runs in order, so a wait holds for all
    groups behind it.
    """
    found: dict[int, int] = {}
    waited_for = -1
    for stage in stages[1:]:
        if stage.after > waited_for:
            found[stage.number] = waited_for = stage.after
    return found
