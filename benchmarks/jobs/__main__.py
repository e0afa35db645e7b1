"""Does `auto` keep up with the best fixed policy?  Prints and keeps one JSON line per drawn job.

    python -m benchmarks.jobs --cells 1000 --seed 1

Jobs are drawn at random (cells.py) and simulated: all buckets of an iteration share the ranks'
ports, and who is let go late comes late again. `auto` is a real leader with its predictions, its
planner and its guard, without the time that deciding takes. The fixed policies reduce every bucket
by one algorithm, which is told the real arrivals; `own` is what calls take without a plan.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.lab.arguments import command_line
from benchmarks.training.patterns import PATTERNS

from . import auto, job
from .cells import NOBODY, RANKS, Cell, draw
from .report import picture, summary

FIXED = ("ring", "slt", "slt_by_bucket", "prr", "direct_exchange")
SEARCHED = "clairvoyant"  # takes milliseconds to find: plans are made without


def measure(arguments: tuple[Cell, int, int, list[str]]) -> dict[str, Any]:
    """Run one cell under every policy."""
    cell, iterations, settled, policies = arguments
    computes_s = cell.computes_s(iterations)
    ends_s = {name: job.ends_s(cell, computes_s, partial(job.fixed, name)) for name in policies}
    ends_s["own"] = job.ends_s(cell, computes_s, lambda on, _: on.own)
    auto_ends_s, ran = auto.ends_s(cell, computes_s)
    paces_s = {name: job.pace_s(ends, settled) for name, ends in ends_s.items()}
    auto_s = job.pace_s(auto_ends_s, settled)
    best = min(paces_s, key=paces_s.__getitem__)
    return {
        **asdict(cell),
        "paces_s": paces_s,
        "auto_s": auto_s,
        "ran": ran,
        "best": best,
        "ratio": round(auto_s / paces_s[best], 4),
    }


def main(argv: list[str] | None = None) -> None:
    """Measure all cells, and draw how far `auto` is from the best."""
    parser = command_line("jobs", __doc__)
    parser.add_argument("--cells", type=int, default=1000, help="how many are drawn (%(default)s)")
    parser.add_argument("--skip", type=int, default=0, help="of those drawn, the first so many")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (%(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, choices=RANKS, help="P")
    parser.add_argument(
        "--patterns", nargs="+", default=[NOBODY, *PATTERNS], choices=[NOBODY, *PATTERNS]
    )
    parser.add_argument(
        "--policies", nargs="+", default=FIXED, choices=[*FIXED, SEARCHED], help="beside auto"
    )
    parser.add_argument("--barrier", action="store_true", help="between iterations")
    parser.add_argument("--iterations", type=int, default=60, help="of each (%(default)s)")
    parser.add_argument("--settled", type=int, default=10, help="left out (%(default)s)")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("out/jobs"), help="folder (%(default)s)")
    options: argparse.Namespace = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    drawn = (draw(options.seed * 1_000_003 + n, max(options.ranks)) for n in itertools.count())
    every = (replace(cell, barrier=options.barrier) for cell in drawn)
    wanted = (
        (cell, options.iterations, options.settled, options.policies)
        for cell in every
        if cell.pattern in options.patterns and cell.ranks in options.ranks
    )
    cells = itertools.islice(wanted, options.skip, options.skip + options.cells)
    records = []
    with (
        multiprocessing.Pool(options.processes) as pool,
        (options.out / "jobs.jsonl").open("w", encoding="utf-8") as file,
    ):
        for record in pool.imap(measure, cells):
            records.append(record)
            print(json.dumps(record), file=file, flush=True)
    summary(records)
    picture(records, options.out / "jobs.png")


if __name__ == "__main__":
    main()
