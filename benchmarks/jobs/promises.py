"""What is promised of plans, simulated: how soon jobs recover, what wrong models cost, the link.

    python -m benchmarks.jobs.promises

recovery   iterations of a balanced job around one (number 0) in which each rank is disturbed by
           another time, in units of a usual iteration; it has to be back within three
guard      200 iterations by plans whose planner believes in another link, or whose planner thinks
           that an algorithm takes half of what it does, over those without any plan; no more than
           1.03
link       the bandwidth that shifts tell, over the true one, where 8 ranks of a ring told 0.013 to
           0.49 of it; between 0.9 and 1.1
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

import patallreduce as pat
from benchmarks.lab.arguments import command_line
from patallreduce import _core
from patallreduce.pricing.link import measure

from . import auto, job
from .cells import NOBODY, Cell

RING_S = 2 * 7 / 8 * (4 << 20) / 25e6
CELL = Cell(8, 4, 1 << 18, 100e-6, 25e6, RING_S, NOBODY, 0.0, 0.0, 1)
DISTURBED, BEFORE, AFTER = 15, 2, 8  # iterations
UNDERPRICED = ("slt", "prr", "slt_dynamic")
LINKS = [(50e-3, 1e9, 4), (100e-6, 1e9, 64), (100e-6, 10e9, 64)] + [
    (1e-3, bits_per_s, 8) for bits_per_s in (200e6, 1e9, 10e9)
]


def of_buckets(buckets: int, **changed: Any) -> Cell:
    """The job with so many buckets."""
    return replace(CELL, buckets=buckets, bucket_elements=(1 << 20) // buckets, **changed)


def recovery(ranks: int, buckets: int) -> list[float]:
    """Iteration times around the disturbed one, over a usual one."""
    of = of_buckets(buckets, ranks=ranks)
    computes_s = of.computes_s(DISTURBED + AFTER + 1)
    for rank in range(ranks):
        computes_s[DISTURBED][rank] += 0.1 * rank * RING_S
    ends_s, _ = auto.ends_s(of, computes_s)
    times_s = [end_s - before_s for before_s, end_s in itertools.pairwise([0.0, *ends_s])]
    return [time_s / times_s[DISTURBED - 5] for time_s in times_s[DISTURBED - BEFORE :]]


def loss(
    buckets: int, pattern: str, bandwidth: float = 1, latency: float = 1, underpriced: str = ""
) -> float:
    """What plans by a wrong model take of the time without any."""
    of = of_buckets(buckets, pattern=pattern, delay_s=RING_S / 2, jitter=0.02)
    computes_s = of.computes_s(200)
    believed = pat.Link(of.latency_s * latency, of.bytes_per_s * bandwidth, 5e9)
    ends_s, _ = auto.ends_s(of, computes_s, believed, underpriced)
    own_s = job.ends_s(of, computes_s, lambda on, _: on.own)
    return ends_s[-1] / own_s[-1]


def measured(latency_s: float, bits_per_s: float, ranks: int) -> tuple[float, float]:
    """Bandwidth and latency that the meter finds, over the true ones."""
    link = pat.Link(latency_s, bits_per_s / 8)

    def round_s(block_bytes: int) -> float:
        _, blocks, rounds, _ = _core.metering_shift(ranks, 1)
        schedule = pat.schedule("shift", ranks, blocks, collective="shift")
        finish_s = pat.simulate(schedule, link, blocks * block_bytes).finish_s
        return sum(finish_s) / ranks / rounds

    found = measure(round_s, 5e9)
    return found.bytes_per_s / link.bytes_per_s, found.latency_s / latency_s


def main() -> None:
    """Simulate all, and print a table of each."""
    command_line("jobs.promises", __doc__).parse_args()
    console = Console(width=130)
    table = Table(title="recovery")
    for column in ("ranks", "buckets", *map(str, range(-BEFORE, AFTER + 1))):
        table.add_column(column, justify="right")
    for ranks, buckets in itertools.product((5, 8), (1, 4, 8)):
        series = (f"{time:.2f}" for time in recovery(ranks, buckets))
        table.add_row(str(ranks), str(buckets), *series)
    console.print(table)
    table = Table(title="guard: with plans over without, 200 iterations")
    wrong = [(0.25, 1.0), (4.0, 1.0), (0.25, 100.0), (4.0, 100.0)]
    models = (f"bandwidth x {b:g}, latency x {a:g}" for b, a in wrong)
    for column in ("buckets", "late", *models, *(f"{name} at half price" for name in UNDERPRICED)):
        table.add_column(column, justify="right")
    for buckets, pattern in itertools.product((1, 4), (NOBODY, "fixed", "linear", "moving")):
        losses = [loss(buckets, pattern, *model) for model in wrong]
        losses += [loss(buckets, pattern, underpriced=name) for name in UNDERPRICED]
        table.add_row(str(buckets), pattern, *(f"{of:.3f}" for of in losses))
    console.print(table)
    table = Table(title="link: measured over true")
    for column in ("ranks", "latency, ms", "Gbit/s", "bandwidth", "latency"):
        table.add_column(column, justify="right")
    for latency_s, bits_per_s, ranks in LINKS:
        ratios = (f"{ratio:.3f}" for ratio in measured(latency_s, bits_per_s, ranks))
        where = (str(ranks), f"{latency_s * 1e3:g}", f"{bits_per_s / 1e9:g}")
        table.add_row(*where, *ratios)
    console.print(table)


if __name__ == "__main__":
    main()
