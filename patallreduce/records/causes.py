"""Why a rank is late: what it does longer than the others, of all that lies before its arrival.

    last sum     start        1/3     1/2     2/3     5/6     arrival
      |--- input ---|-- forward --|------- backward, in quarters ---|
    ^ schedule: the all-reduce before lets one rank go later than another

How much longer a rank takes than the median of the others, for each of these, adds up to its
lateness. Medians over the iterations since it is late, so that single stalls do not count. What it
does longer than the others in one phase it may make up for in another (the last of a chain has its
result first, and starts early), so shares are of all that takes it longer.

On a GPU the start and the edges are the host's, which runs ahead: what takes the GPU longer is then
told of the backward pass, in whichever pass it is.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from patallreduce.records.evidence import CERTAIN, evidence
from patallreduce.records.findings import Cause, Finding
from patallreduce.records.hosts import busy_host
from patallreduce.records.iterations import FORWARD, Iteration, Times

# A cause is named that makes so much of all that takes a rank longer; so one is always named.
_NAMED = 1 / 4

# What bounds phases, in order, with the edges in between; the zero of the clock is common to all.
_ZERO, _RESULT, _START, _ARRIVAL = -2.0, -1.0, 0.0, 1.0
_Marks = Mapping[float, Times]
_CAUSES: dict[tuple[float, float], Cause] = {
    (_ZERO, _RESULT): "schedule",
    (_RESULT, _START): "input",
    (_ZERO, _START): "start",
    (_START, FORWARD): "forward",
    (FORWARD, _ARRIVAL): "backward",
    (_START, _ARRIVAL): "computation",
}
_COMPUTING: tuple[Cause, ...] = ("forward", "backward", "computation")
_QUARTERS = ("first quarter", "second quarter", "third quarter", "last quarter")


def findings(
    iterations: Sequence[Iteration], rank: int, since: int, late_s: float, won_s: float
) -> list[Finding]:
    """Find the causes of a rank's lateness, the largest first; none if it may be chance.

    Args:
        iterations: Of one model, in order.
        rank: Who is late.
        since: Number of the iteration since when.
        late_s: By how much.
        won_s: What plans win.
    """
    phase = [i for i in iterations if i.iteration >= since and i.last_rank is not None]
    if evidence(phase, rank) < CERTAIN:
        return []
    marks = _known_in_most(_marks(iterations, since))
    longer_s = {cause: _longer_s(marks, rank, *between) for between, cause in _causes(marks)}
    all_s = sum(max(0.0, time_s) for time_s in longer_s.values())
    host = busy_host(phase, rank)
    costs_s = statistics.fmean(_cost_s(i, rank) for i in phase)
    return [
        Finding(
            rank=rank,
            since=since,
            late_s=late_s,
            cause=cause,
            longer_s=time_s,
            share=time_s / all_s,
            part=_part(marks, rank, time_s) if cause == "backward" else "",
            host=host if cause in _COMPUTING else "",
            costs_s=costs_s,
            won_s=won_s,
        )
        for cause, time_s in sorted(longer_s.items(), key=lambda item: -item[1])
        if time_s > 0 and time_s >= _NAMED * all_s
    ]


def _marks(iterations: Sequence[Iteration], since: int) -> Iterator[_Marks]:
    """When the ranks passed what bounds their phases, by iteration; what is known of all ranks."""
    for before, iteration in itertools.pairwise([None, *iterations]):
        if iteration is None or iteration.iteration < since:
            continue
        of_ddp = iteration.progress if iteration.model > 0 else ()
        marks = {edge.fraction: edge.at_s for edge in of_ddp}
        marks[_ZERO] = (0.0,) * iteration.ranks
        if before is not None and before.iteration == iteration.iteration - 1:
            marks[_RESULT] = before.finish_s
        marks |= {_START: iteration.start_s, _ARRIVAL: iteration.arrival_s}
        yield {mark: at_s for mark, at_s in marks.items() if not any(map(math.isnan, at_s))}


def _known_in_most(every: Iterator[_Marks]) -> list[_Marks]:
    """The iterations that have every mark that most have, with these."""
    known = [marks for marks in every if _ARRIVAL in marks and _START in marks]
    counts = {mark: sum(mark in marks for marks in known) for marks in known for mark in marks}
    usual = sorted(mark for mark, count in counts.items() if 2 * count > len(known))
    return [{mark: marks[mark] for mark in usual} for marks in known if marks.keys() >= set(usual)]


def _causes(marks: Sequence[_Marks]) -> list[tuple[tuple[float, float], Cause]]:
    bounds = (_ZERO, _RESULT, _START, FORWARD, _ARRIVAL)
    known = [mark for mark in bounds if marks and mark in marks[0]]
    return [(between, _CAUSES[between]) for between in itertools.pairwise(known)]


def _longer_s(marks: Sequence[_Marks], rank: int, begin: float, end: float) -> float:
    """By how much a rank takes longer than the median of the others; median over iterations."""
    longer = []
    for of in marks:
        took_s = [end_s - begin_s for end_s, begin_s in zip(of[end], of[begin], strict=True)]
        mine_s = took_s.pop(rank)
        longer.append(mine_s - statistics.median(took_s))
    return statistics.median(longer)


def _part(marks: Sequence[_Marks], rank: int, longer_s: float) -> str:
    edges = [mark for mark in marks[0] if mark >= FORWARD]
    parts = {between: _longer_s(marks, rank, *between) for between in itertools.pairwise(edges)}
    between = max(parts, key=parts.__getitem__)
    if parts[between] < longer_s / 2:
        return ""
    first, last = (round(4 * (mark - FORWARD) / (1 - FORWARD)) for mark in between)
    if last - first == 1:
        return _QUARTERS[first]
    return {(0, 2): "first half", (2, 4): "second half"}.get((first, last), "")


def _cost_s(iteration: Iteration, rank: int) -> float:
    others = (time_s for other, time_s in enumerate(iteration.arrival_s) if other != rank)
    return max(0.0, iteration.arrival_s[rank] - max(others))
