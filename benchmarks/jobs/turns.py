"""Which of several buckets goes first on a port?  Prints and keeps one JSON line per drawn job.

    python -m benchmarks.jobs.turns --cells 200 --seed 7

The executor's messages leave in the order in which they become ready. This asks a simulation what
another order would win: the first bucket first, the last one, or the one with the least left to do
on that rank. Jobs of several buckets are drawn as in `benchmarks.jobs`; each reduces all buckets by
one algorithm, which is told the real arrivals. What is compared is the pace: mean seconds of an
iteration.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lab.arguments import command_line
from benchmarks.lab.plan import Record, write_records
from patallreduce.pictures.figures import figure, save

from . import job
from .cells import Cell, draw

ALGORITHMS = ("ring", "slt")
READY = "first_ready"
OTHERS = ("first_collective", "last_collective", "least_left")
NAMES = {
    "first_collective": "first bucket first",
    "last_collective": "last bucket first",
    "least_left": "least left first",
}


def measure(arguments: tuple[Cell, int, int]) -> Record:
    """Run one cell in every order."""
    cell, iterations, settled = arguments
    computes_s = cell.computes_s(iterations)
    return {
        **asdict(cell),
        "paces_s": {
            name: {
                turn: job.pace_s(
                    job.ends_s(cell, computes_s, partial(job.fixed, name), turn), settled
                )
                for turn in (READY, *OTHERS)
            }
            for name in ALGORITHMS
        },
    }


def ratios(records: list[Record], name: str, turn: str) -> list[float]:
    """Return its pace over that of first ready first, per job, in rising order."""
    return sorted(
        record["paces_s"][name][turn] / record["paces_s"][name][READY] for record in records
    )


def print_table(records: list[Record]) -> None:
    """Print how much slower than first ready first the others are."""
    table = Table(title=f"Iterations against first ready first, {len(records)} jobs")
    for column in ("algorithm", "order", "mean", "best", "median", "worst", "> 1.01", "< 0.99"):
        table.add_column(column, justify="left" if column in ("algorithm", "order") else "right")
    for name, turn in itertools.product(ALGORITHMS, OTHERS):
        of = ratios(records, name, turn)
        figures = (statistics.fmean(of), of[0], statistics.median(of), of[-1])
        counts = (sum(r > 1.01 for r in of), sum(r < 0.99 for r in of))
        table.add_row(name, NAMES[turn], *(f"{f:.3f}" for f in figures), *map(str, counts))
    Console(width=100).print(table)


def draw_ratios(records: list[Record], path: Path) -> None:
    """Draw the shares of jobs up to each ratio, a panel per algorithm."""
    picture = figure(10.0, 3.8)
    panels = picture.subplots(1, len(ALGORITHMS), sharey=True)
    for axes, name in zip(panels, ALGORITHMS, strict=True):
        for turn in OTHERS:
            of = ratios(records, name, turn)
            axes.step(of, [(i + 1) / len(of) for i in range(len(of))], label=NAMES[turn])
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_title(name)
        axes.set_xlabel("iteration, against first ready first")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of the jobs")
    panels[0].legend()
    save(picture, path)


def main() -> None:
    """Simulate all cells; print, keep and draw the ratios."""
    parser = command_line("jobs.turns", __doc__)
    parser.add_argument("--cells", type=int, default=200, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of what is drawn (%(default)s)")
    parser.add_argument("--most-ranks", type=int, default=16, help="P (%(default)s)")
    parser.add_argument("--iterations", type=int, default=30, help="of each (%(default)s)")
    parser.add_argument("--settled", type=int, default=5, help="left out (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out/jobs"), help="folder (%(default)s)")
    options: argparse.Namespace = parser.parse_args()
    every = (draw(options.seed * 1_000_003 + n, options.most_ranks) for n in itertools.count())
    several = (cell for cell in every if cell.buckets > 1)
    asked: Any = (
        (cell, options.iterations, options.settled)
        for cell in itertools.islice(several, options.cells)
    )
    with multiprocessing.Pool() as pool:
        records = list(pool.imap(measure, asked))
    options.out.mkdir(parents=True, exist_ok=True)
    write_records(options.out / "turns.jsonl", records)
    print_table(records)
    draw_ratios(records, options.out / "turns.png")


if __name__ == "__main__":
    main()
