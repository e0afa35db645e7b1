"""Stream programs in print: what every rank queues on which stream, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patallreduce._core import StreamProgram
from patallreduce.gpu.stages import (
    HOME,
    SCRATCH,
    SHADOW,
    SUMS,
    Group,
    Item,
    Stage,
    Sum,
    Transfer,
    stages_of,
    waits,
)
from patallreduce.text.table import text_table

_HEADINGS = (
    "\ngroup",
    "on `messages`\nwaits for",
    "\nsends",
    "\nreceives",
    "then on\n`sums`",
    "\nawaited by",
)


def lane_letter(lane: int, lanes: int) -> str:
    """How a lane is named beside a stage: not at all where there is one only."""
    return chr(ord("a") + lane) if lanes > 1 else ""


def stream_table(program: StreamProgram) -> str:
    """One rank's program, a line per group: stage 3 in the second of several lanes is 3b.

    A message is "segments to peer from memory" or "segments from peer into memory"; a sum is
    "segments: what is added -> where it is kept". Memory is home (the caller's), a numbered region
    of scratch, or shadow. Sums are in the line of the last group that they wait for; other groups
    that they wait for are named before them.
    """
    table = _Table(program)
    rows = [row for stage in table.stages for row in table.rows(stage)]
    return f"rank {program.rank}: {_memory(program)}\n" + text_table(
        _HEADINGS, rows, left=(1, 2, 3, 4, 5)
    )


def _memory(program: StreamProgram) -> str:
    kinds = [HOME]
    if program.regions:
        kinds.append(f"scratch in {program.regions} region{'s' if program.regions > 1 else ''}")
    if program.shadow:
        kinds.append(SHADOW)
    return ", ".join(kinds)


class _Table:
    """The lines of one program."""

    def __init__(self, program: StreamProgram) -> None:
        self.stages = stages_of(program)
        self._lanes = program.lanes
        self._result_stage = program.result_stage
        self._waits = waits(self.stages)
        self._waiters: dict[Item, list[Item]] = {}
        for waiter, awaited in self._waits.items():
            for one in awaited:
                self._waiters.setdefault(one, []).append(waiter)

    def rows(self, stage: Stage) -> list[list[str]]:
        """A stage's lines: one at least."""
        shown = [Item(group.lane, stage.number) for group in stage.groups]
        with_sums = max((item for item in stage.awaited_groups if item in shown), default=None)
        if with_sums is None:
            with_sums = shown[-1] if shown else None
        rows = [
            self._row(item, group, stage, item == with_sums)
            for item, group in zip(shown, stage.groups, strict=True)
        ]
        return rows or [["0", "no group", "", "", *self._sums(stage, None)]]

    def _row(self, item: Item, group: Group, stage: Stage, with_sums: bool) -> list[str]:
        return [
            self._number(item),
            ", ".join(map(self._name, self._waits.get(item, ()))),
            ", ".join(f"{span(one)} to {one.peer} from {one.memory}" for one in group.sends),
            ", ".join(_landing(one, stage.region) for one in group.receives),
            *(self._sums(stage, item) if with_sums else ["", self._awaited_by([item])]),
        ]

    def _sums(self, stage: Stage, item: Item | None) -> list[str]:
        """The sums of a stage in the line of its group at `item`, and what waits for the two."""
        then = [_sum(one, stage.region) for one in stage.sums]
        sums = Item(SUMS, stage.number)
        others = [self._name(one) for one in self._waits.get(sums, ()) if one != item]
        if others:
            then.insert(0, f"after {', '.join(others)}")
        if stage.number == 0:
            then.insert(0, "arrival")
        if stage.number == self._result_stage:
            then.append("RESULT")
        return ["; ".join(then), self._awaited_by([sums] if item is None else [item, sums])]

    def _awaited_by(self, items: Sequence[Item]) -> str:
        waiters = {one for item in items for one in self._waiters.get(item, ())}
        groups = sorted((one for one in waiters if one.lane != SUMS), key=lambda one: one[::-1])
        return ", ".join(map(self._name, groups))

    def _name(self, item: Item) -> str:
        if item.lane != SUMS:
            return f"group {self._number(item)}"
        return f"sums {item.stage}" if item.stage else "arrival"

    def _number(self, item: Item) -> str:
        return f"{item.stage}{lane_letter(item.lane, self._lanes)}"


def _landing(one: Transfer, region: int) -> str:
    return f"{span(one)} from {one.peer} into {_region_of(one.memory, region)}"


def _sum(one: Sum, region: int) -> str:
    added = [_region_of(memory, region) for memory in (one.held, one.received) if memory]
    kept = [memory for memory in (one.out, one.also) if memory]
    if one.callers:
        added[0] += " / P"
    return f"{span(one)}: {' + '.join(added)} -> {' and '.join(kept)}"


def _region_of(memory: str, region: int) -> str:
    return f"{SCRATCH} {region}" if memory == SCRATCH else memory


def span(one: Transfer | Sum) -> str:
    """Segments as the tables of schedules write them: 3, or 3-5."""
    return str(one.first) if one.last == one.first + 1 else f"{one.first}-{one.last - 1}"


def stream_tables(programs: Sequence[StreamProgram]) -> str:
    """The tables of several ranks, and what holds for all of them."""
    return "\n\n".join(_parts(programs))


def _parts(programs: Sequence[StreamProgram]) -> Iterator[str]:
    yield from map(stream_table, programs)
    yield (
        "The host queues a rank's stages in this order and goes on; it waits for no GPU.\n"
        "No entry under `waits for`: a group still follows the group before it in its lane, and\n"
        "sums the sums before them; all sums follow the arrival."
    )
