"""The demo's table in docs/performance.md, due as soon as benchmarks/results has the record."""

from __future__ import annotations

from collections.abc import Iterator

from tests.figures.records import RESULTS, Figure, load, median, ms

PAGE = "docs/performance.md"
FILE = "demo.jsonl"
NAMES = {"plain": "plain DDP over Gloo", "patallreduce": "DDP + patallreduce"}
MEASURES = ("iterations_s", "average_elapsed_s", "after_s", "late_elapsed_s")


def figures() -> Iterator[Figure]:
    if not (RESULTS / FILE).exists():
        return
    for configuration, name in NAMES.items():
        runs = [run for run in load(FILE) if run["configuration"] == configuration]
        medians_s = [median(s for run in runs for s in run[measure]) for measure in MEASURES]
        times = [ms(time_s, 1 if time_s < 10e-3 else 0) for time_s in medians_s]
        yield Figure(PAGE, f"| {name} | {' | '.join(times)} |", "median", FILE)
    runs = [run for run in load(FILE) if run["configuration"] == "patallreduce"]
    alone_s = median(s for run in runs for s in run["late_computation_s"])
    yield Figure(PAGE, f"The late rank alone computes {ms(alone_s)} per step", "median", FILE)
