"""How far do measured times stray from the model, over how many octaves, and how smoothly?

    python -m benchmarks.tuned --network 200mbit --ranks 8
    python -m benchmarks.deviations out/tuned/times0.jsonl

The logarithm of the likelihood of what tuning has measured, by the constants by which it estimates
what it has not (`patallreduce/decisions/regression.py`), and by how much others are likelier: each
of them by 0.7 and 1.4 times, and deviations that have no kinks. Several files are told one by one,
and together. Prints a table, and keeps one JSON line for each choice of constants.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.lab.environment import environment
from benchmarks.lab.plan import Record, write_records
from patallreduce.decisions.regression import USUAL, Deviations, Regression
from patallreduce.decisions.times import Case, Method, read_times
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import frozen
from patallreduce.tuning.search import prices_of, series_of

FACTORS = (0.7, 1.4)
USED = "as tuning has them"


def squared_exponential(apart: torch.Tensor) -> torch.Tensor:
    """Of points so many lengths apart: no kinks."""
    return torch.exp(-(apart**2) / 2)


def choices() -> Iterator[tuple[str, Deviations]]:
    """Constants, by what differs from those that tuning uses."""
    yield USED, USUAL
    for name, value in USUAL._asdict().items():
        if isinstance(value, float):
            for factor in FACTORS:
                other: dict[str, Any] = {name: value * factor}
                yield f"{name} * {factor}", USUAL._replace(**other)
    for factor in (1.0, 0.7, 0.5, 0.35):  # such deviations last longer than they seem to
        octaves = {
            "shared_octaves": USUAL.shared_octaves * factor,
            "own_octaves": USUAL.own_octaves * factor,
        }
        name = f"squared exponential, octaves * {factor}"
        yield name, USUAL._replace(correlation=squared_exponential, **octaves)


def log_likelihood(file: Path, deviations: Deviations) -> tuple[float, int]:
    """Of all that the file tells, collective by collective; and how many medians that are."""
    machine, times = _read(file)
    link = Link(**{name: frozen(value) for name, value in machine["link"].items()})
    series: dict[tuple[str, bool], list[Case]] = {}
    for case in times.cases():
        series.setdefault(series_of(case), []).append(case)
    total, medians = 0.0, 0
    for cases in series.values():
        prices = {case: _prices(case, link) for case in cases}
        regression = Regression(times, cases, prices.__getitem__, deviations)
        total += regression.log_likelihood()
        medians += sum(len(regression.measured(case)) for case in cases)
    return total, medians


_read = cache(read_times)


@cache
def _prices(case: Case, link: Link) -> dict[Method, float]:
    return prices_of(case, link, nodes=())


def records(files: list[Path]) -> Iterator[Record]:
    """One for each choice of constants."""
    for name, deviations in choices():
        found = [log_likelihood(file, deviations) for file in files]
        yield {
            "choice": name,
            "log_likelihoods": [one for one, _ in found],
            "medians": [medians for _, medians in found],
            "environment": environment(),
        }


def table(of: list[Record], files: list[Path]) -> Table:
    """Of each file, and of all."""
    shown = Table(title=f"log-likelihood {USED}; of others, by how much it is more")
    shown.add_column("constants")
    for file in files:
        shown.add_column(str(file.parent), justify="right")
    shown.add_column("all", justify="right")
    used = of[0]["log_likelihoods"]
    for record in of:
        found = record["log_likelihoods"]
        if record["choice"] != USED:
            found = [one - usual for one, usual in zip(found, used, strict=True)]
        sign = "" if record["choice"] == USED else "+"
        shown.add_row(record["choice"], *(f"{one:{sign}.1f}" for one in [*found, sum(found)]))
    return shown


def main() -> None:
    """Tell."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deviations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, help="times0.jsonl … of benchmarks.tuned")
    parser.add_argument("--out", type=Path, default=Path("out/deviations"), help="folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = list(records(options.files))
    results = options.out / "deviations.jsonl"
    write_records(results, found)
    Console(width=120).print(table(found, options.files))
    print(f"records: {results}")


if __name__ == "__main__":
    main()
