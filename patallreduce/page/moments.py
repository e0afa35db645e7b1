"""Which iterations' timelines a page holds, and what it draws of them.

All of them, where they fit; else the worst, by how late the latest rank was, and every n-th.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from patallreduce.page.microseconds import packed, packed_times
from patallreduce.records.activities import Activity, lanes
from patallreduce.records.iterations import Iteration, Times

ACTIVITIES: tuple[Activity, ...] = ("computation", "waiting", "communication")
WORST = 200
ROOM = 1_500_000  # times in all timelines of a page: 8 MB of it


@dataclass(frozen=True)
class Kept:
    """Positions of the iterations whose timelines are kept: the worst, and every n-th."""

    positions: tuple[int, ...]
    worst: int
    every: int


def kept(iterations: Sequence[Iteration], room: int = ROOM) -> Kept:
    """Choose whose timelines are kept, so that they hold about `room` times at most."""
    largest = max((_times_of(i) for i in iterations), default=1)
    fit = max(1, room // largest)
    if len(iterations) <= fit:
        return Kept(tuple(range(len(iterations))), len(iterations), 1)
    by_lateness = sorted(range(len(iterations)), key=lambda at: -_latest_s(iterations[at]))
    worst = by_lateness[: min(WORST, fit // 2)]
    every = math.ceil(len(iterations) / (fit - len(worst)))
    return Kept(tuple(sorted({*worst, *range(0, len(iterations), every)})), len(worst), every)


def timelines(iterations: Sequence[Iteration], chosen: Kept) -> dict[str, Any]:
    """What the page draws of the kept iterations, per iteration in the order of `_moment`."""
    shown = [iterations[at] for at in chosen.positions]
    return {
        "every": chosen.every,
        "worst": chosen.worst,
        "positions": packed(chosen.positions),
        "buckets": [[[b.index, b.algorithm, b.planned] for b in i.buckets] for i in shown],
        "times": packed_times(itertools.chain.from_iterable(map(_moment, shown))),
    }


def _moment(iteration: Iteration) -> Iterator[float]:
    """An iteration's times after its first start, each for all ranks.

    Begin and end of each activity; then of each bucket arrival, predicted arrival, finish.
    """
    zero_s = min((t for t in iteration.start_s if not math.isnan(t)), default=math.nan)
    if math.isnan(zero_s):
        zero_s = min((t for t in iteration.arrival_s if not math.isnan(t)), default=math.nan)
    of_ranks = lanes(iteration.start_s, iteration.arrival_s, iteration.finish_s)
    spans = [{i.activity: (i.start_s, i.end_s) for i in intervals} for intervals in of_ranks]
    unknown = math.nan, math.nan
    lists: list[Times] = []
    for activity in ACTIVITIES:
        begins_and_ends = [span.get(activity, unknown) for span in spans]
        lists += zip(*begins_and_ends, strict=True)
    for bucket in iteration.buckets:
        lists += [bucket.arrival_s, bucket.predicted_s, bucket.finish_s]
    return (time_s - zero_s for times_s in lists for time_s in times_s)


def _times_of(iteration: Iteration) -> int:
    return iteration.ranks * (2 * len(ACTIVITIES) + 3 * len(iteration.buckets))


def _latest_s(iteration: Iteration) -> float:
    return max((late_s for late_s in iteration.lateness_s if late_s > 0), default=0.0)
