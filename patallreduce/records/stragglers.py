"""Which rank keeps the others waiting: how late, since when, why, and what it costs.

Lateness is measured before the all-reduce, where a rank arrives: afterwards all ranks are equally
late, because DDP makes everybody wait for the last. (A timer around the training step, or around
the all-reduce alone, would blame the early ranks.) It is arrival after the median rank's arrival.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from patallreduce.records.causes import findings
from patallreduce.records.findings import Finding
from patallreduce.records.iterations import Iteration
from patallreduce.records.paces import paces
from patallreduce.records.ports import narrow_ports
from patallreduce.records.straggler_report import RankReport, Report, of_computation_s, threshold_of

# Late means: by more than this part of the median rank's computation.
LATE_RATIO = 0.02
# Ranks that are not late by chance are named if without them the others would wait so much less, as
# a part of the median rank's computation.
_WORTH_NAMING = 0.01
# So many more late iterations than a chance run of them make a phase.
_PHASE_LEAST = 3
# An iteration in which a rank was on time outweighs two in which it was late: a phase is one only
# while the rank is late in two iterations of three.
_ON_TIME_WEIGHT = 2


def straggler_report(
    iterations: Sequence[Iteration],
    *,
    threshold_s: float | None = None,
    ratio: float | None = None,
) -> Report:
    """Report which ranks are late, how much, since when, whether predicted, and what plans win.

    Cost: O(iterations * P log P), no communication. Iterations with an unknown arrival are left
    out: only the leader's records tell of all ranks.

    Args:
        iterations: Of one model, in order, all of the same P ranks.
        threshold_s: A rank is late in an iteration if it is later than this. Default: `ratio`.
        ratio: The same as a part of the median rank's computation. Default: 0.02.

    Raises:
        ValueError: Iterations of different numbers of ranks, or of several models; both
            thresholds, or one that is not a number >= 0.
    """
    ranks = _checked_ranks(iterations)
    known = [i for i in iterations if i.last_rank is not None]
    computation_s = _median([_median(i.computation_s) for i in known])
    threshold_s = threshold_of(
        computation_s, threshold_s, ratio, of_computation_s(computation_s, LATE_RATIO)
    )
    reports = [_rank_report(rank, known, threshold_s) for rank in range(ranks)]
    plans = paces(iterations)
    late = [(r.rank, r.late_since, r.late_s) for r in reports if r.late_since is not None]
    late.sort(key=lambda of_rank: -of_rank[2])
    found = tuple(f for of in late for f in findings(iterations, *of, plans.won_s))
    if found and _costs_s(known, found) < _WORTH_NAMING * computation_s:
        found = ()
    return Report(
        ranks=tuple(reports),
        iterations=len(known),
        unknown=len(iterations) - len(known),
        computation_s=computation_s,
        threshold_s=threshold_s,
        paces=plans,
        findings=found,
        ports=narrow_ports(iterations),
    )


def _costs_s(known: Sequence[Iteration], found: Sequence[Finding]) -> float:
    """By how much sooner the last rank would arrive without all that are late, mean since then."""
    ranks, since = {f.rank for f in found}, min(f.since for f in found)
    return _mean(
        [
            max(0.0, max(i.arrival_s) - max(s for r, s in enumerate(i.arrival_s) if r not in ranks))
            for i in known
            if i.iteration >= since
        ]
    )


def late_since(late: Sequence[bool]) -> int | None:
    """Return where the run of late iterations begins that lasts until now, or None.

    It is the end piece in which late iterations outweigh the others most, so that one iteration on
    time does not end a phase, nor does one late iteration begin it. Of equals the shortest.

    >>> late_since([False, True, False, False, True, True, True, False, True, True])
    4
    """
    best, start, weight = _PHASE_LEAST - 1, None, 0
    for index in reversed(range(len(late))):
        weight += 1 if late[index] else -_ON_TIME_WEIGHT
        if weight > best:
            best, start = weight, index
    return start


def _rank_report(rank: int, known: Sequence[Iteration], threshold_s: float) -> RankReport:
    lateness_s = [i.lateness_s[rank] for i in known]
    since = late_since([late_s > threshold_s for late_s in lateness_s])
    last = [i for i in known if i.last_rank == rank]
    predicted = [i.predicted_last_rank == rank for i in last if i.predicted_last_rank is not None]
    return RankReport(
        rank=rank,
        mean_s=_mean(lateness_s),
        median_s=_median(lateness_s),
        max_s=max(lateness_s, default=math.nan),
        last_share=_mean([i.last_rank == rank for i in known]),
        late_since=None if since is None else known[since].iteration,
        late_s=math.nan if since is None else _median(lateness_s[since:]),
        predicted_share=_mean(predicted),
        prediction_error_s=_mean([abs(i.prediction_error_s[rank]) for i in known]),
        cost_s=_mean([_mean(_without(i.elapsed_s, rank)) for i in last]),
    )


def _checked_ranks(iterations: Sequence[Iteration]) -> int:
    ranks, models = {i.ranks for i in iterations}, {i.model for i in iterations}
    if len(ranks) > 1 or len(models) > 1:
        raise ValueError(
            f"expected iterations of one model on the same ranks, got models {sorted(models)} on "
            f"{' and '.join(map(str, sorted(ranks)))} ranks"
        )
    return ranks.pop() if ranks else 0


def _without(times_s: Sequence[float], rank: int) -> list[float]:
    return [time_s for other, time_s in enumerate(times_s) if other != rank]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan
