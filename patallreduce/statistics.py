"""Is an algorithm robust to late ranks, and is its advantage more than chance?

CLV16's measures and tests, for measured samples and for simulated ones alike. With arrivals a,
exits e and t_A(a) the run time of algorithm A under pattern a (Definitions 3.4 to 3.9):

    run time                t_A(a)  = max e - min a
    absolute imbalance      I(a)    = max a - min a
    absorption              A(a, A) = t_A(0) - t_A(a) + I(a)     where t_A(0): all arrive together
    normalised absorption   A_N     = A(a, A) / t_A(0)

An algorithm that absorbs I(a) is not slowed down by the late ranks at all; one that waits for all
of them absorbs nothing; below 0 they cost it more than their own lateness.

Run times have long tails, so their median speaks for them. Of two algorithms the ratio of medians
is reported, with a bootstrap interval, and the probability of a ratio as high by chance. All this
takes samples to be independent; `runs_test` says whether they look so.

`ratio_interval` and `permutation_p` need SciPy, imported when they are called.

Source: Marendic, Lemeire, Vucinic, Schelkens, "A novel MPI reduction algorithm resilient to
imbalances in process arrival times", J. Supercomput. 72 (2016), sections 3 and 6.2.
"""

from __future__ import annotations

import importlib
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PERMUTATIONS = 20_000  # the paper's
_TRIMMED = 0.1
_BATCH = 1000  # resamples in memory at a time


def run_time_s(arrivals_s: Sequence[float], finish_s: Sequence[float]) -> float:
    """Seconds from the first rank's arrival to the last one's finish; (P,) each, on one clock."""
    if len(arrivals_s) != len(finish_s) or not arrivals_s:
        raise ValueError(
            f"expected as many arrivals as finishes, at least 1, got {len(arrivals_s)} and "
            f"{len(finish_s)}"
        )
    return max(finish_s) - min(arrivals_s)


def imbalance_s(arrivals_s: Sequence[float]) -> float:
    """Seconds from the first rank's arrival to the last one's: I(a)."""
    return max(arrivals_s) - min(arrivals_s)


def absorption_s(balanced_s: float, run_time_s: float, imbalance_s: float) -> float:
    """Seconds of the imbalance that an algorithm hides: A = t(0) - t(a) + I(a)."""
    return balanced_s - run_time_s + imbalance_s


def normalised_absorption(balanced_s: float, run_time_s: float, imbalance_s: float) -> float:
    """Absorption in run times of ranks that arrive together: A_N = A / t(0); `balanced_s` > 0."""
    if not balanced_s > 0:
        raise ValueError(f"balanced_s: expected a run time > 0, got {balanced_s}")
    return absorption_s(balanced_s, run_time_s, imbalance_s) / balanced_s


def trimmed_mean(values: Sequence[float]) -> float:
    """Without the least and the largest tenth, of three values or more at least one of each.

    A call that now takes one time and now twice as long costs the mean of both, where a median says
    one or the other; and of a mean of all the longest says most. StatisticsError without any.
    """
    cut = math.ceil(_TRIMMED * len(values)) if len(values) > 2 else 0
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def ratio_of_medians(slower: Sequence[float], faster: Sequence[float]) -> float:
    """Median of one sample over that of the other."""
    return statistics.median(slower) / statistics.median(faster)


def ratio_interval(
    slower: Sequence[float],
    faster: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> tuple[float, float]:
    """Bootstrap interval of `ratio_of_medians`: percentiles of the resampled ratios.

    Args:
        slower: At least 2 values > 0.
        faster: The same of the other algorithm; the numbers of values may differ.
        confidence: Of the interval, within (0, 1).
        resamples: How often both samples are drawn anew, with replacement.
        seed: Of the draws: the same seed gives the same interval.

    Raises:
        ValueError: A sample is too small or has a value that is not > 0.
        ModuleNotFoundError: SciPy is not installed.
    """
    found = scipy_stats().bootstrap(
        _samples(slower, faster),
        _ratio,
        n_resamples=resamples,
        batch=_BATCH,
        vectorized=True,
        axis=-1,
        confidence_level=confidence,
        method="percentile",
        rng=seed,
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def permutation_p(
    slower: Sequence[float],
    faster: Sequence[float],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> float:
    """Probability of a ratio of medians as high or higher by chance: one-sided, in (0, 1].

    All values are dealt to the two algorithms anew, `permutations` times; where there are fewer
    ways to deal them, each way once, which makes the probability exact. CLV16 calls a ratio
    significant below 0.05. Arguments and errors as of `ratio_interval`.
    """
    found = scipy_stats().permutation_test(
        _samples(slower, faster),
        _ratio,
        permutation_type="independent",
        alternative="greater",
        n_resamples=permutations,
        batch=_BATCH,
        vectorized=True,
        axis=-1,
        rng=seed,
    )
    return float(found.pvalue)


@dataclass(frozen=True)
class Runs:
    """What a runs test found.

    Args:
        runs: Stretches of values all above, or all below, the median.
        expected: How many were to be expected of independent values.
        p: Probability of so few or so many by chance, two-sided. Below 0.05 the values depend on
            those before them: fewer runs than expected are phases, more are oscillation.
    """

    runs: int
    expected: float
    p: float


def runs_test(values: Sequence[float]) -> Runs:
    """Do values, in the order in which they were measured, depend on those before them?

    Wald and Wolfowitz's test about the median, with the exact distribution instead of the normal
    one that approximates it from 10 values on each side on. Values equal to the median are left
    out.

    Raises:
        ValueError: No value lies above the median, or none below.

    Source: NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.13, which CLV16 cites;
    Gibbons, Chakraborti, Nonparametric Statistical Inference, theorem 3.2.2.
    """
    median = statistics.median(values) if values else 0.0
    above = [value > median for value in values if value != median]
    high, low = above.count(True), above.count(False)
    if not high or not low:
        raise ValueError(
            f"expected values above and below their median, got {high} above and {low} below"
        )
    runs = 1 + sum(a != b for a, b in itertools.pairwise(above))
    ways = [_ways(n, high, low) for n in range(high + low + 1)]
    tail = min(sum(ways[: runs + 1]), sum(ways[runs:]))
    p = min(1.0, 2 * tail / math.comb(high + low, high))
    return Runs(runs, 1 + 2 * high * low / (high + low), p)


def _ways(runs: int, high: int, low: int) -> int:
    """In how many orders `high` and `low` values of two kinds make so many runs."""
    if runs < 2:
        return 0
    half, odd = divmod(runs, 2)

    def cut(values: int, parts: int) -> int:
        return math.comb(values - 1, parts - 1)

    if odd:
        return cut(high, half + 1) * cut(low, half) + cut(high, half) * cut(low, half + 1)
    return 2 * cut(high, half) * cut(low, half)


def _ratio(slower: Any, faster: Any, axis: int = -1) -> Any:
    import numpy

    return numpy.median(slower, axis=axis) / numpy.median(faster, axis=axis)


def _samples(*samples: Sequence[float]) -> tuple[list[float], ...]:
    for sample in samples:
        if len(sample) < 2:
            raise ValueError(f"expected at least 2 values in each sample, got {len(sample)}")
        for value in sample:
            if not 0 < value < math.inf:
                raise ValueError(f"expected times > 0, got {value}")
    return tuple(map(list, samples))


def scipy_stats() -> Any:
    """The module; an error says how to get it."""
    try:
        return importlib.import_module("scipy.stats")  # it has no types to import
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"statistics need SciPy: pip install 'patallreduce[statistics]' ({error})"
        ) from error
