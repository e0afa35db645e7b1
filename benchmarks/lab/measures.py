"""What is measured, defined once: arrivals and finishes of one all-reduce, and figures from them.

Both are read from CLOCK_MONOTONIC, which all ranks of one machine share, in whichever namespace
they are. Definitions as in Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349; `after` is ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """One timed all-reduce, or `calls` of them back to back; times in seconds, by rank."""

    arrivals_s: list[float]
    finishes_s: list[float]
    calls: int = 1

    def elapsed_s(self, rank: int) -> float:
        """e_i = f_i - a_i, per call."""
        return (self.finishes_s[rank] - self.arrivals_s[rank]) / self.calls

    @property
    def average_elapsed_s(self) -> float:
        """Mean of e_i over the ranks, per call."""
        return statistics.fmean(self.elapsed_s(rank) for rank in range(len(self.arrivals_s)))

    @property
    def after_s(self) -> float:
        """From the last arrival until every rank has its result, per call."""
        return (max(self.finishes_s) - max(self.arrivals_s)) / self.calls

    @property
    def last_elapsed_s(self) -> float:
        """e_i of the rank that arrived last: what the all-reduce costs the late rank itself."""
        return self.elapsed_s(self.arrivals_s.index(max(self.arrivals_s)))


def bandwidths_bytes_s(message_bytes: int, ranks: int, time_s: float) -> tuple[float, float]:
    """(algbw, busbw): bytes per time, and times 2(P-1)/P, what each link must carry for it."""
    algorithm_bytes_s = message_bytes / time_s
    return algorithm_bytes_s, algorithm_bytes_s * 2 * (ranks - 1) / ranks


def medians(samples: Sequence[Sample]) -> dict[str, float]:
    """Median of each figure over the samples, and the smallest average elapsed."""
    return {
        "average_elapsed_s": statistics.median(s.average_elapsed_s for s in samples),
        "average_elapsed_min_s": min(s.average_elapsed_s for s in samples),
        "after_s": statistics.median(s.after_s for s in samples),
        "late_elapsed_s": statistics.median(s.last_elapsed_s for s in samples),
    }


def relative(sample: Sample) -> dict[str, list[float]]:
    """Write a sample in few digits: microseconds from the first arrival on."""
    first_s = min(sample.arrivals_s)
    return {
        "arrivals_s": [round(time_s - first_s, 6) for time_s in sample.arrivals_s],
        "finishes_s": [round(time_s - first_s, 6) for time_s in sample.finishes_s],
    }
