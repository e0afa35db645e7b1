"""Stream programs in print: what every rank queues on which stream, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patallreduce._core import StreamProgram
from patallreduce.stream_stages import HOME, SCRATCH, SHADOW, Stage, Sum, Transfer, stages_of, waits
from patallreduce.text_table import text_table

_HEADINGS = (
    "\nstage",
    "group on `messages`\nwaits for",
    "\nsends",
    "\nreceives",
    "then on\n`sums`",
    "\nawaited by",
)


def stream_table(program: StreamProgram) -> str:
    """One rank's program, a line per stage.

    A message is "segments to peer from memory" or "segments from peer into memory"; a sum is
    "segments: what is added -> where it is kept". Memory is home (the caller's), a numbered region
    of scratch, or shadow.
    """
    stages = stages_of(program)
    awaited = waits(stages)
    rows = [_row(stage, awaited, program.result_stage) for stage in stages]
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


def _row(stage: Stage, awaited: dict[int, int], result_stage: int) -> list[str]:
    then = [_sum(one, stage.region) for one in stage.sums]
    if stage.number == 0:
        then.insert(0, "arrival")
    if stage.number == result_stage:
        then.append("RESULT")
    by = [f"group {group}" for group, sums in awaited.items() if sums == stage.number]
    return [
        str(stage.number),
        _waits_for(stage, awaited) if stage.number else "no group",
        ", ".join(f"{span(one)} to {one.peer} from {one.memory}" for one in stage.sends),
        ", ".join(_landing(one, stage.region) for one in stage.receives),
        "; ".join(then),
        ", ".join(by),
    ]


def _waits_for(stage: Stage, awaited: dict[int, int]) -> str:
    if stage.number not in awaited:
        return ""
    sums = awaited[stage.number]
    return f"sums {sums}" if sums else "arrival"


def _landing(one: Transfer, region: int) -> str:
    return f"{span(one)} from {one.peer} into {_place(one.memory, region)}"


def _sum(one: Sum, region: int) -> str:
    added = [_place(memory, region) for memory in (one.held, one.received) if memory]
    kept = [memory for memory in (one.out, one.also) if memory]
    if one.callers:
        added[0] += " / P"
    return f"{span(one)}: {' + '.join(added)} -> {' and '.join(kept)}"


def _place(memory: str, region: int) -> str:
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
        "No entry under `waits for`: a group still follows the group before it, and sums the sums\n"
        "before them; all sums follow the arrival."
    )
