"""Does `auto` keep up with plain DDP and with our own ring on a network?

    python -m benchmarks.jobs.measured --cells 40 --seed 1

Trains jobs of the same grid as `benchmarks.jobs` on the emulated network: those, of the cells that
the seed draws, whose network two cores can carry and whose iterations are short. Their layers sleep
(benchmarks/training). The rivals are DDP over Gloo and our own ring without a monitor; the three
take turns in the same processes. Prints and keeps one JSON line per job.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from benchmarks.lab.arguments import add_out, command_line
from benchmarks.lab.plan import Plan, Record, end_on_sigterm, make_plan, run_plan, write_records

from .cells import NOBODY, Cell, draw
from .report import picture, summary

RIVALS = ("gloo", "ring")
MOST_RANKS = 16
MOST_LATENCY_S = 100e-6  # what the emulated network has, about
MOST_ALL_BYTES_S = 500e6  # through all ports together


def fits(cell: Cell, most_s: float) -> bool:
    """Whether this machine can emulate it, in iterations of no more than so many seconds."""
    return (
        cell.latency_s <= MOST_LATENCY_S
        and cell.ranks * cell.bytes_per_s <= MOST_ALL_BYTES_S
        and usual_s(cell) <= most_s
    )


def usual_s(cell: Cell) -> float:
    """Return about what an iteration takes whose communication nothing hides."""
    late_s = 0.0 if cell.pattern == NOBODY else cell.delay_s
    return cell.compute_s + cell.ring_s + late_s


def drawn(seed: int, most_s: float) -> Iterator[Cell]:
    """Draw cells that fit, without end."""
    every = (draw(seed * 1_000_003 + n, MOST_RANKS) for n in itertools.count())
    return (cell for cell in every if fits(cell, most_s))


def measure(cell: Cell, plan: Plan) -> dict[str, Any]:
    """Train one job with each hook in turns."""
    nobody = cell.pattern == NOBODY
    records = run_plan(
        {
            **plan,
            "network": f"{cell.bytes_per_s * 8 / 1e6:g}mbit",
            "bytes": 4 * cell.bucket_elements * cell.buckets,
            "buckets": cell.buckets,
            "computation_s": cell.compute_s,
            "jitter": cell.jitter,
            "patterns": ["fixed" if nobody else cell.pattern],
            "late": [0.0 if nobody else cell.delay_s],
            "iterations": max(round(plan["block_s"] / usual_s(cell)), 4 * plan["settled"]),
        },
        [cell.ranks],
        "benchmarks.training.worker",
    )
    by_hook: dict[str, Record] = {record["hook"]: record for record in records}
    paces_s = {rival: by_hook[rival]["mean_iteration_s"] for rival in RIVALS}
    best = min(paces_s, key=paces_s.__getitem__)
    auto = by_hook["auto"]
    return {
        **asdict(cell),
        "paces_s": paces_s,
        "auto_s": auto["mean_iteration_s"],
        "ran": {name.removeprefix("auto: "): n for name, n in auto["schedules"].items()},
        "best": best,
        "ratio": round(auto["mean_iteration_s"] / paces_s[best], 4),
        "medians_s": {hook: record["iteration_s"] for hook, record in by_hook.items()},
        "iterations_s": {hook: record["iterations_s"] for hook, record in by_hook.items()},
        "environment": plan["environment"],
    }


def said(record: dict[str, Any]) -> str:
    """Tell of a job that is done."""
    paces_ms = {**record["paces_s"], "auto": record["auto_s"]}
    paces = ", ".join(f"{name} {pace_s * 1e3:.1f}" for name, pace_s in paces_ms.items())
    return (
        f"{record['ranks']} ranks, {record['buckets']} buckets, {record['pattern']}: "
        f"{paces} ms per iteration (means), auto / best {record['ratio']:.3f}"
    )


def main() -> None:
    """Measure all cells, and draw how far `auto` is from the better rival."""
    parser = command_line("jobs.measured", __doc__)
    parser.add_argument("--cells", type=int, default=40, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (%(default)s)")
    parser.add_argument("--most-s", type=float, default=0.6, help="of an iteration (%(default)s)")
    parser.add_argument(
        "--block-s", type=float, default=5.0, help="of a block, about (%(default)s)"
    )
    parser.add_argument("--blocks", type=int, default=3, help="of each hook (%(default)s)")
    parser.add_argument("--settled", type=int, default=4, help="left out of each (%(default)s)")
    add_out(parser, "out/jobs_measured", 600.0)
    options = parser.parse_args()
    options.network, options.batch_size, options.hooks = "drawn", 1, [*RIVALS, "auto"]
    end_on_sigterm()
    plan = make_plan(options, "job.jsonl")
    records = []
    for cell in itertools.islice(drawn(options.seed, options.most_s), options.cells):
        records.append(measure(cell, plan))
        print(said(records[-1]), flush=True)
        write_records(options.out / "jobs_measured.jsonl", records)
    print(json.dumps({"seed": options.seed, "cells": len(records)}))
    summary(records)
    picture(records, options.out / "jobs_measured.png", "measured")


if __name__ == "__main__":
    main()
