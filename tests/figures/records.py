"""Records of benchmarks/results, and what is computed from them; one `Figure` per claim."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

Record = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A measured text of a document, made from a record."""

    document: str  # from the top of the repository
    text: str  # as it has to stand there, but for line breaks
    statistic: str  # a word that the same section of the document says
    record: str  # file in benchmarks/results


@cache
def load(name: str) -> list[Record]:
    lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def one(name: str, **values: object) -> Record:
    """The only record of the file with these values."""
    found = [r for r in load(name) if all(r.get(key) == value for key, value in values.items())]
    assert len(found) == 1, f"{name}: {len(found)} records with {values}"
    return found[0]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def ms(seconds: float, digits: int = 0) -> str:
    return f"{seconds * 1e3:,.{digits}f} ms"


def percent(ratio: float, digits: int = 0) -> str:
    """How much more than 1 (or less) a ratio is."""
    return f"{abs(ratio - 1) * 100:.{digits}f} %"


def time_text(seconds: float) -> str:
    """As a table of very different times has it: microseconds below one millisecond."""
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else ms(seconds, 1)


def after_s(record: Record) -> float:
    """Median over the samples of: last finish - last arrival, per call."""
    return median(
        (max(s["finishes_s"]) - max(s["arrivals_s"])) / s.get("calls", 1) for s in record["samples"]
    )


def average_elapsed_s(record: Record) -> float:
    """Median over the samples of: mean over the ranks of finish - arrival, per call."""
    return median(
        mean(f - a for f, a in zip(s["finishes_s"], s["arrivals_s"], strict=True))
        / s.get("calls", 1)
        for s in record["samples"]
    )


def of_hooks(name: str, delay_s: float) -> str:
    """Cells of a table: median and mean of the iterations of Gloo, the ring and auto."""
    return " | ".join(
        f"{ms(median(times_s))} | {ms(mean(times_s))}"
        for hook in ("gloo", "ring", "auto")
        for times_s in [one(name, hook=hook, delay_s=delay_s)["iterations_s"]]
    )


def late_elapsed_s(record: Record) -> float:
    """Median over the samples of: finish - arrival of the rank that arrived last, per call."""
    lates = [(s, s["arrivals_s"].index(max(s["arrivals_s"]))) for s in record["samples"]]
    return median(
        (s["finishes_s"][late] - s["arrivals_s"][late]) / s.get("calls", 1) for s, late in lates
    )
