"""What was measured, simulated again, and how far the two are apart. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

import patallreduce as pat
from benchmarks.lab.plan import Record
from patallreduce import patterns
from patallreduce.pricing.models import Model
from patallreduce.pricing.networks import Network

FORESEEING = {"slt", "prr", "clairvoyant"}  # their schedules depend on the arrivals foreseen
DYNAMIC = {"slt_dynamic"}  # depends on those that come
_PARAMETERS = ("segments", "segment_time_s", "latency_s", "sum_s")  # of a schedule

# By ranks, the largest delay and a seed. The late rank is PAP18's.
PATTERNS: dict[str, Callable[[int, float, int], list[float]]] = {
    "balanced": lambda ranks, most_s, seed: patterns.balanced(ranks),
    "one-late": lambda ranks, most_s, seed: patterns.one_late(ranks, most_s, rank=1 % ranks),
    "uniform": lambda ranks, most_s, seed: patterns.uniform(ranks, most_s, seed=seed),
    "alternating": lambda ranks, most_s, seed: patterns.alternating(ranks, 0.0, most_s),
}


def delays_s(pattern: str, ranks: int, most_s: float, seed: int) -> list[float]:
    """By how many seconds each rank is late, at most by `most_s`."""
    return PATTERNS[pattern](ranks, most_s, seed)


def elapsed_s(record: Record) -> float:
    """Average elapsed as it was measured: the median over the samples."""
    return statistics.median(
        statistics.fmean(sample["finishes_s"]) - statistics.fmean(sample["arrivals_s"])
        for sample in record["samples"]
    )


def simulated_finishes_s(
    record: Record, network: Model | Network, control_s: float
) -> list[list[float]]:
    """Finishes in every sample of a record, under the arrivals that it really had.

    Args:
        record: As worker.py writes it.
        network: What is measured about it.
        control_s: To tell of an arrival and to be told of it; slt_dynamic only.
    """
    made: dict[tuple[float, ...], pat.Schedule] = {}
    finishes_s = []
    for sample in record["samples"]:
        arrivals_s = sample["arrivals_s"]
        foreseen_s, begins_s = record["hints_s"], arrivals_s
        if record["algorithm"] in DYNAMIC:
            foreseen_s, begins_s = arrivals_s, with_places(arrivals_s, control_s)
        key = tuple(foreseen_s or ())
        if key not in made:
            made[key] = pat.schedule(
                record["algorithm"],
                record["ranks"],
                arrivals_s=foreseen_s,
                **{name: record[name] for name in _PARAMETERS},
            )
        found = pat.simulate(made[key], network, record["bytes"], begins_s)
        finishes_s.append(list(found.finish_s))
    return finishes_s


def simulated_s(record: Record, network: Model | Network, control_s: float) -> list[float]:
    """Average elapsed of every sample, simulated; arguments as of `simulated_finishes_s`."""
    return [
        statistics.fmean(finishes_s) - statistics.fmean(sample["arrivals_s"])
        for finishes_s, sample in zip(
            simulated_finishes_s(record, network, control_s), record["samples"], strict=True
        )
    ]


def with_places(arrivals_s: Sequence[float], control_s: float) -> list[float]:
    """When the ranks of slt_dynamic can begin: as soon as they know their places.

    All but the last learn them `control_s` after their arrival (csrc/executor/places.h). The last
    one's is known when the last but one has come.
    """
    last = max(range(len(arrivals_s)), key=arrivals_s.__getitem__)
    others_s = [a + control_s for rank, a in enumerate(arrivals_s) if rank != last]
    begins_s = [a + control_s for a in arrivals_s]
    begins_s[last] = max([arrivals_s[last], *others_s])
    return begins_s


def geometric_error(ratios: Iterable[float]) -> float:
    """How far simulated and measured are apart: exp(mean |log(simulated / measured)|) - 1.

    Raises:
        ValueError: No ratios, or one that is not > 0.
    """
    logs = [abs(math.log(ratio)) for ratio in ratios]
    if not logs:
        raise ValueError("expected at least one ratio, got none")
    return math.exp(statistics.fmean(logs)) - 1


def cells(records: Iterable[Record], network: Model | Network, control_s: float) -> list[Record]:
    """Add to every record what was measured and simulated, medians over its samples."""
    made = []
    for record in records:
        measured_s = elapsed_s(record)
        found_s = statistics.median(simulated_s(record, network, control_s))
        made.append(
            {
                **record,
                "measured_s": measured_s,
                "simulated_s": found_s,
                "error": found_s / measured_s - 1,
            }
        )
    return made


def summary(cells: Sequence[Record]) -> Record:
    """Geometric mean errors, over all cells and by algorithm, size and pattern, and the worst."""

    def error(of: Iterable[Record]) -> float:
        return geometric_error(cell["simulated_s"] / cell["measured_s"] for cell in of)

    def by(field: str) -> dict[str, float]:
        values = dict.fromkeys(cell[field] for cell in cells)
        return {
            str(value): error(cell for cell in cells if cell[field] == value) for value in values
        }

    def distance(cell: Record) -> float:
        return abs(math.log(cell["simulated_s"] / cell["measured_s"]))

    worst = max(cells, key=distance)
    return {
        "cells": len(cells),
        "error": error(cells),
        "error_by_algorithm": by("algorithm"),
        "error_by_bytes": by("bytes"),
        "error_by_pattern": by("pattern"),
        "worst": {field: worst[field] for field in ("algorithm", "bytes", "pattern", "error")},
    }
