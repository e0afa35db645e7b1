"""What plans win, measured: iterations with them against iterations near by without.

The overhead of an iteration is the time from the end of the one before to its own end, less what
the rank that arrived last did since it had its last result: what no plan changes is not in it. That
is what the leader's guard measures, too, when it leaves plans out now and then.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.records.iterations import Iteration

# Iterations further apart may have had other ranks late.
_NEAR = 20


@dataclass(frozen=True)
class Paces:
    """Overheads of iterations of both kinds, of each those that have one of the other kind near.

    Args:
        planned: How many with a plan were measured.
        plain: How many without.
        planned_s: Median overhead with a plan, seconds; NaN if there is none to compare.
        plain_s: Median overhead without.
    """

    planned: int
    plain: int
    planned_s: float
    plain_s: float

    @property
    def won_s(self) -> float:
        """Seconds per iteration that plans win; below 0 where they cost, NaN where not measured."""
        return self.plain_s - self.planned_s


def overhead_s(before: Iteration, iteration: Iteration) -> float:
    """Return the overhead of an iteration, seconds; NaN where a time is not known."""
    rank = iteration.last_rank
    known = not math.isnan(sum(before.finish_s) + sum(iteration.finish_s))
    if rank is None or not known or iteration.iteration != before.iteration + 1:
        return math.nan
    pace_s = max(iteration.finish_s) - max(before.finish_s)
    return pace_s - (iteration.arrival_s[rank] - before.finish_s[rank])


def paces(iterations: Sequence[Iteration]) -> Paces:
    """Compare the iterations of one model, in order, with plans and without.

    The first iteration after a change shows what was before, too, and counts for neither.
    """
    overheads: dict[bool, dict[int, float]] = {True: {}, False: {}}
    for before, iteration in itertools.pairwise(iterations):
        spent_s = overhead_s(before, iteration)
        if not math.isnan(spent_s) and has_plan(before) == has_plan(iteration):
            overheads[has_plan(iteration)][iteration.iteration] = spent_s
    near = {
        planned: [
            spent_s
            for number, spent_s in overheads[planned].items()
            if any(abs(number - other) <= _NEAR for other in overheads[not planned])
        ]
        for planned in overheads
    }
    return Paces(
        planned=len(near[True]),
        plain=len(near[False]),
        planned_s=statistics.median(near[True]) if near[True] else math.nan,
        plain_s=statistics.median(near[False]) if near[False] else math.nan,
    )


def has_plan(iteration: Iteration) -> bool:
    """Whether a plan was followed for one of its buckets, or more."""
    return any(bucket.planned for bucket in iteration.buckets)
