"""What a page says first, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.records.iterations import Iteration
from patallreduce.records.paces import has_plan
from patallreduce.records.straggler_report import Report


def sentences(report: Report) -> list[str]:
    """Who is late, since when, by how much, and what plans win: all above the report's table."""
    return str(report).partition("\n\n")[0].splitlines()


def won(report: Report, iterations: Sequence[Iteration]) -> str:
    """What plans won in the whole run, as far as that was measured."""
    if math.isnan(report.paces.won_s):
        return "What plans won is not known: it takes iterations with a plan and without."
    planned = sum(map(has_plan, iterations))
    won_s = report.paces.won_s
    return (
        f"Plans {'won' if won_s >= 0 else 'cost'} about {abs(won_s) * planned:.1f} s in all: "
        f"{abs(won_s) * 1e3:.1f} ms in each of {planned} iterations with one (medians)."
    )


@dataclass(frozen=True)
class Share:
    """How often a bucket was summed by an algorithm, and how often as a plan said."""

    bucket: int
    elements: int
    algorithm: str
    share: float
    planned_share: float


def shares(iterations: Sequence[Iteration]) -> list[Share]:
    """Of each bucket the algorithms that summed it, the most frequent first."""
    counts: Counter[tuple[int, int, str]] = Counter()
    planned: Counter[tuple[int, int, str]] = Counter()
    for iteration in iterations:
        for bucket in iteration.buckets:
            key = bucket.index, bucket.elements, bucket.algorithm
            counts[key] += 1
            planned[key] += bucket.planned
    of_bucket: Counter[tuple[int, int]] = Counter()
    for (index, elements, _), count in counts.items():
        of_bucket[index, elements] += count
    return [
        Share(*key, count / of_bucket[key[:2]], planned[key] / count)
        for key, count in sorted(counts.items(), key=lambda item: (item[0][:2], -item[1]))
    ]
