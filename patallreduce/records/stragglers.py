"""Which rank keeps the others waiting: how late, since when, was it foreseen, and what it costs.

Lateness is measured before the all-reduce, where a rank arrives: afterwards all ranks are equally
late, because DDP makes everybody wait for the last. (A timer around the training step, or around
the all-reduce alone, would blame the early ranks.) It is arrival after the median rank's arrival.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.records.iterations import Iteration

# Late means: by more than this part of the median rank's computation.
LATE_RATIO = 0.02
# So many more late iterations than a chance run of them make a phase.
_PHASE_LEAST = 3
# An iteration in which a rank was on time outweighs two in which it was late: a phase is one only
# while the rank is late in two iterations of three.
_ON_TIME_WEIGHT = 2


@dataclass(frozen=True)
class RankReport:
    """One rank over all iterations; times in seconds, NaN where there is nothing to measure.

    Args:
        rank: Which.
        mean_s: Mean lateness.
        median_s: Median lateness.
        max_s: Largest lateness.
        last_share: Share of the iterations in which it arrived last.
        late_since: Number of the iteration since when it is late, and still is at the end of the
            records; None if it is not late then.
        late_s: Median lateness since then; NaN if `late_since` is None.
        predicted_share: Of the iterations in which it was last and there was a prediction, the
            share in which the prediction named it.
        prediction_error_s: Mean absolute error of its predicted arrivals.
        cost_s: Average elapsed time of the other ranks in the iterations in which it was last:
            what they waited, the all-reduce included.
    """

    rank: int
    mean_s: float
    median_s: float
    max_s: float
    last_share: float
    late_since: int | None
    late_s: float
    predicted_share: float
    prediction_error_s: float
    cost_s: float


@dataclass(frozen=True)
class Report:
    """Every rank's lateness; `print(report)` shows it as a table.

    Args:
        ranks: In rank order.
        iterations: How many were measured.
        unknown: How many more were left out because an arrival is not known.
        computation_s: Median over the iterations of the median rank's computation.
        threshold_s: Above which a rank was counted as late.
    """

    ranks: tuple[RankReport, ...]
    iterations: int
    unknown: int
    computation_s: float
    threshold_s: float

    def identify_stragglers(
        self, threshold_s: float | None = None, *, ratio: float | None = None
    ) -> list[int]:
        """Return the ranks that are late: typically, or in the phase that lasts to the end.

        Args:
            threshold_s: Median lateness above which a rank is a straggler. Default: the report's.
            ratio: The same as a part of the median rank's computation; give one of the two.

        Returns:
            Ranks, the latest first.

        Raises:
            ValueError: Both are given, or a value is not a number >= 0.
        """
        threshold_s = _threshold_s(self.computation_s, threshold_s, ratio, self.threshold_s)
        # max() keeps its first argument where the second is NaN, which compares as false.
        late_s = {r.rank: max(0.0, r.median_s, r.late_s) for r in self.ranks}
        late = [rank for rank in late_s if late_s[rank] > threshold_s]
        return sorted(late, key=lambda rank: (-late_s[rank], rank))

    def __str__(self) -> str:
        from patallreduce.records.straggler_table import render

        return render(self)


def straggler_report(
    iterations: Sequence[Iteration],
    *,
    threshold_s: float | None = None,
    ratio: float | None = None,
) -> Report:
    """Report which ranks are late, how much, since when, whether predicted, and at what cost.

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
    threshold_s = _threshold_s(
        computation_s, threshold_s, ratio, _of_computation_s(computation_s, LATE_RATIO)
    )
    return Report(
        ranks=tuple(_rank_report(rank, known, threshold_s) for rank in range(ranks)),
        iterations=len(known),
        unknown=len(iterations) - len(known),
        computation_s=computation_s,
        threshold_s=threshold_s,
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


def _threshold_s(
    computation_s: float, threshold_s: float | None, ratio: float | None, default_s: float
) -> float:
    if threshold_s is not None and ratio is not None:
        raise ValueError(f"expected threshold_s or ratio, got both: {threshold_s} and {ratio}")
    for name, value in [("threshold_s", threshold_s), ("ratio", ratio)]:
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name}: expected a number >= 0, got {value}")
    if threshold_s is not None:
        return threshold_s
    return default_s if ratio is None else _of_computation_s(computation_s, ratio)


def _of_computation_s(computation_s: float, ratio: float) -> float:
    # Where no start is known there is nothing to compare with: whoever is behind is late.
    return 0.0 if math.isnan(computation_s) else ratio * computation_s


def _without(times_s: Sequence[float], rank: int) -> list[float]:
    return [time_s for other, time_s in enumerate(times_s) if other != rank]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan
