"""Which algorithm would be best here? Every one simulated under the same arrivals, then ranked.

Of several draws of a pattern every figure is the median, as CLV16 (section 6.2) reports it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce._core import ScheduleError
from patallreduce.pricing.bucket import Bucket, make_schedule
from patallreduce.pricing.schedules import algorithms
from patallreduce.pricing.simulation import simulate
from patallreduce.statistics import absorption_s, imbalance_s, run_time_s

MEASURES = {
    "average": "average_elapsed_s",
    "after": "after_last_arrival_s",
    "late": "late_elapsed_s",
    "run-time": "run_time_s",
}


@dataclass(frozen=True)
class Price:
    """What an algorithm would cost: seconds, of several draws the medians.

    Args:
        algorithm: Its name.
        segments: Of its schedule.
        run_time_s: From the first arrival to the last finish (CLV16).
        average_elapsed_s: Mean over the ranks of finish minus arrival.
        after_last_arrival_s: From the last arrival to the last finish.
        late_elapsed_s: Finish minus arrival of the rank that arrives last; NaN if all arrive
            together.
        absorption_s: What it hides of the imbalance (CLV16; `patallreduce.statistics`).
        balanced_s: Its run time if all arrive together.
    """

    algorithm: str
    segments: int
    run_time_s: float
    average_elapsed_s: float
    after_last_arrival_s: float
    late_elapsed_s: float
    absorption_s: float
    balanced_s: float

    @property
    def normalised_absorption(self) -> float:
        """Absorption in run times of ranks that arrive together; NaN if those take no time."""
        return self.absorption_s / self.balanced_s if self.balanced_s > 0 else math.nan


def price(algorithm: str, bucket: Bucket, patterns_s: Sequence[Sequence[float]]) -> Price:
    """Simulate one algorithm under each of these arrivals.

    Args:
        algorithm: One of `algorithms()`.
        bucket: What it is to reduce.
        patterns_s: One or more draws, each of (P,) seconds.

    Raises:
        ScheduleError: The algorithm cannot do it, or arrivals are not P finite numbers >= 0.
        ValueError: No draws.
    """
    if not patterns_s:
        raise ValueError("expected one or more patterns of arrivals, got none")
    together_s = [0.0] * bucket.ranks
    balanced = make_schedule(algorithm, bucket, together_s)
    finish_s = simulate(balanced, bucket.network(algorithm), bucket.message_bytes).finish_s
    balanced_s = run_time_s(together_s, finish_s)
    prices = [_price(algorithm, bucket, arrivals_s, balanced_s) for arrivals_s in patterns_s]
    if len(prices) == 1:
        return prices[0]

    def median_s(field: str) -> float:
        known = [value for p in prices if not math.isnan(value := getattr(p, field))]
        return statistics.median(known) if known else math.nan

    return Price(
        algorithm,
        prices[0].segments,
        run_time_s=median_s("run_time_s"),
        average_elapsed_s=median_s("average_elapsed_s"),
        after_last_arrival_s=median_s("after_last_arrival_s"),
        late_elapsed_s=median_s("late_elapsed_s"),
        absorption_s=median_s("absorption_s"),
        balanced_s=balanced_s,
    )


def _price(algorithm: str, bucket: Bucket, arrivals_s: Sequence[float], balanced_s: float) -> Price:
    made = make_schedule(algorithm, bucket, arrivals_s)
    found = simulate(made, bucket.network(algorithm), bucket.message_bytes, arrivals_s)
    time_s, late_by_s = run_time_s(arrivals_s, found.finish_s), imbalance_s(arrivals_s)
    late = max(range(bucket.ranks), key=arrivals_s.__getitem__)
    return Price(
        algorithm,
        made.segments,
        time_s,
        found.average_elapsed_s,
        found.after_last_arrival_s,
        found.finish_s[late] - arrivals_s[late] if late_by_s else math.nan,
        absorption_s(balanced_s, time_s, late_by_s),
        balanced_s,
    )


def compare(
    bucket: Bucket, patterns_s: Sequence[Sequence[float]], *, by: str = "average"
) -> tuple[list[Price], dict[str, str]]:
    """Simulate every algorithm of `algorithms()`, the cheapest first.

    Args:
        bucket: What is to be reduced.
        patterns_s: One or more draws, each of (P,) seconds.
        by: One of `MEASURES`, to rank by; equal ones by name.

    Returns:
        The prices, and why the algorithms that are missing cannot do it, by name.

    Raises:
        ScheduleError: None can.
        ValueError: `by` is unknown, or there are no draws.
    """
    if by not in MEASURES:
        raise ValueError(f"by: expected one of {', '.join(MEASURES)}, got {by!r}")
    prices, refusals = [], {}
    for algorithm in algorithms():
        try:
            prices.append(price(algorithm, bucket, patterns_s))
        except ScheduleError as error:
            refusals[algorithm] = str(error)
    if not prices:
        raise ScheduleError(next(iter(refusals.values())))

    def rank(found: Price) -> tuple[float, str]:
        value = getattr(found, MEASURES[by])
        return (math.inf if math.isnan(value) else value), found.algorithm

    return sorted(prices, key=rank), refusals
