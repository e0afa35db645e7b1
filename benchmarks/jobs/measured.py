"""Does `auto` keep up with plain DDP and with our own ring on a network?

    python -m benchmarks.jobs.measured --cells 40 --seed 1

Trains jobs of the same grid as `benchmarks.jobs` on the emulated network: those, of the cells that
the seed draws, whose network two cores can carry and whose iterations are short. Their layers sleep
(benchmarks/training). The rivals are DDP over Gloo and our own ring without a monitor; the three
take turns in the same processes, in blocks of a few seconds, and each block of `auto` is compared
with the rivals' blocks beside it. Prints and keeps one JSON line per job: the mean of these ratios
and its standard error.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
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
# What a message costs a processor, about; with many small ones the processors, which all ranks
# share here, would be measured.
MESSAGE_S = 50e-6
CORES = 2
MOST_BUSY = 0.15  # of an iteration


def fits(cell: Cell, most_s: float) -> bool:
    """Whether this machine can emulate it, in iterations of no more than so many seconds."""
    messages = cell.ranks * 2 * (cell.ranks - 1) * cell.buckets  # of rings
    return (
        cell.latency_s <= MOST_LATENCY_S
        and cell.ranks * cell.bytes_per_s <= MOST_ALL_BYTES_S
        and messages * MESSAGE_S / CORES <= MOST_BUSY * usual_s(cell)
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
            "model": "sized",
            "network": f"{cell.bytes_per_s * 8 / 1e6:g}mbit",
            "bytes": 4 * cell.bucket_elements * cell.buckets,
            "buckets": cell.buckets,
            "computation_s": cell.compute_s,
            "jitter": cell.jitter,
            "barrier": cell.barrier,
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
    blocks_s = {hook: means(by_hook[hook]["iterations_s"], plan["blocks"]) for hook in by_hook}
    ratios = [ours / rivals for ours, rivals in zip(blocks_s["auto"], blocks_s[best], strict=True)]
    return {
        **asdict(cell),
        "paces_s": paces_s,
        "auto_s": auto["mean_iteration_s"],
        "ran": {**by_hook["ring"]["schedules"], **auto["schedules"]},
        "best": best,
        "ratio": round(statistics.fmean(ratios), 4),
        "standard_error": round(statistics.stdev(ratios) / math.sqrt(len(ratios)), 4),
        "medians_s": {hook: record["iteration_s"] for hook, record in by_hook.items()},
        "iterations_s": {hook: record["iterations_s"] for hook, record in by_hook.items()},
        "environment": plan["environment"],
    }


def means(iterations_s: list[float], blocks: int) -> list[float]:
    """Of each block's iterations."""
    each = len(iterations_s) // blocks
    return [statistics.fmean(iterations_s[b * each : (b + 1) * each]) for b in range(blocks)]


def said(record: dict[str, Any]) -> str:
    """Tell of a job that is done."""
    paces_ms = {**record["paces_s"], "auto": record["auto_s"]}
    paces = ", ".join(f"{name} {pace_s * 1e3:.1f}" for name, pace_s in paces_ms.items())
    return (
        f"{record['ranks']} ranks, {record['buckets']} buckets, {record['pattern']}: "
        f"{paces} ms per iteration (means), "
        f"auto / best {record['ratio']:.3f} +- {record['standard_error']:.3f}"
    )


def main() -> None:
    """Measure all cells, and draw how far `auto` is from the better rival."""
    parser = command_line("jobs.measured", __doc__)
    parser.add_argument("--cells", type=int, default=40, help="how many (%(default)s)")
    parser.add_argument("--skip", type=int, default=0, help="of those drawn, the first so many")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (%(default)s)")
    parser.add_argument("--most-s", type=float, default=0.6, help="of an iteration (%(default)s)")
    parser.add_argument(
        "--block-s", type=float, default=3.0, help="of a block, about (%(default)s)"
    )
    parser.add_argument("--blocks", type=int, default=5, help="of each hook, 2 or more")
    parser.add_argument("--settled", type=int, default=3, help="left out of each (%(default)s)")
    add_out(parser, "out/jobs_measured", 600.0)
    options = parser.parse_args()
    options.network, options.batch_size, options.hooks = "drawn", 1, [*RIVALS, "auto"]
    end_on_sigterm()
    plan = make_plan(options, "job.jsonl")
    records = []
    last = options.skip + options.cells
    for cell in itertools.islice(drawn(options.seed, options.most_s), options.skip, last):
        records.append(measure(cell, plan))
        print(said(records[-1]), flush=True)
        write_records(options.out / "jobs_measured.jsonl", records)
    print(json.dumps({"seed": options.seed, "cells": len(records)}))
    summary(records)
    picture(records, options.out / "jobs_measured.png", "measured")


if __name__ == "__main__":
    main()
