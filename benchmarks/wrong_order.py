"""What does a wrong order cost?  Simulates the traces; prints one JSON line per trace and way.

    python -m benchmarks.wrong_order --results benchmarks/results/wrong_order.jsonl

Each iteration of a trace (each stage a job of its own, beginning with nothing learned) ends in one
all-reduce of a message whose transfer takes a quarter of the stage's median spread, over the link
named below, in fine segments by the rules of `choose_segments`. Ways to order the ranks:

    ring          no order
    predicted     slt in the order predicted when the leader decides (traces/replay.py)
    dynamic       slt_dynamic: the chain grows as ranks really arrive, see `dynamic_arrivals_s`
    perfect       slt in the real order, as if known from the start
    auto          what the Selector chooses for the predicted arrivals and their expected errors

after: from the last arrival to the last result, in units of M*beta; mean over all iterations.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import patallreduce as pat
from benchmarks import traces
from benchmarks.lab.plan import Record
from benchmarks.traces.command import run_on_traces
from benchmarks.traces.replay import COMBINED, Replayed, replay
from patallreduce import _core
from patallreduce.pictures.figures import figure, save
from patallreduce.pricing.selection import choose_segments

LINK = pat.Link(latency_s=20e-6, bytes_per_s=250e6, reduce_bytes_per_s=5e9)
ELEMENT_BYTES = 4
SPREAD_SHARE = 0.25  # of the median spread: M*beta
WAYS = ["ring", "predicted", "dynamic", "perfect", "auto"]


def dynamic_arrivals_s(arrivals_s: Sequence[float], latency_s: float) -> list[float]:
    """Delay arrivals so that a chain in the real order costs what one that grows would at most.

    A rank reports its arrival to the leader, which tells the rank that arrived before it: two
    latencies after a rank's arrival its predecessor in the chain knows where to send. The last
    rank is known as soon as all others have arrived. A rank that cannot send yet is taken to
    arrive when it can. That delays its own additions too, which really need not wait for the
    successor, so what is simulated is an upper bound.
    """
    chain = sorted(range(len(arrivals_s)), key=lambda rank: (arrivals_s[rank], rank))
    delayed_s = list(arrivals_s)
    for place, rank in enumerate(chain[:-1]):
        # Of the last two, the arrival of the first tells who the second is.
        tells = chain[min(place + 1, len(chain) - 2)]
        delayed_s[rank] = max(arrivals_s[rank], arrivals_s[tells] + 2 * latency_s)
    return delayed_s


class Job:
    """The all-reduce of one stage: simulates it in each way."""

    def __init__(self, ranks: int, median_spread_s: float) -> None:
        elements = SPREAD_SHARE * median_spread_s * LINK.bytes_per_s / ELEMENT_BYTES
        self.ranks = ranks
        self.elements = max(1, round(elements))
        self.message_bytes = self.elements * ELEMENT_BYTES
        self.transfer_s = LINK.transfer_s(self.message_bytes)
        self.selector = _core.Selector(ranks, LINK)
        self.ring = pat.schedule("ring", ranks, self.segments("ring"))

    def segments(self, algorithm: str) -> int:
        """Cut as the product does without a plan."""
        return choose_segments(algorithm, self.ranks, self.message_bytes, self.elements, LINK)

    def slt(self, arrivals_s: Sequence[float]) -> pat.Schedule:
        """Chain the ranks in order of `arrivals_s`."""
        return pat.schedule("slt", self.ranks, self.segments("slt"), arrivals_s)

    def dynamic(self, arrivals_s: Sequence[float], segments: int) -> float:
        """Simulate the chain that grows."""
        schedule = pat.schedule("slt_dynamic", self.ranks, segments, arrivals_s)
        delayed_s = dynamic_arrivals_s(arrivals_s, LINK.latency_s)
        return self.after(schedule, delayed_s, max(arrivals_s))

    def auto(self, replayed: Replayed) -> tuple[str, float]:
        """Simulate what the selector chooses; without any prediction the plan is the ring."""
        real_s = replayed.iteration.arrivals_s
        predicted_s = replayed.said_s.get(COMBINED)
        if predicted_s is None:
            return "ring", self.after(self.ring, real_s, max(real_s))
        algorithm, segments, arrivals_s, segment_time_s, _ = self.selector.choose(
            self.elements, ELEMENT_BYTES, predicted_s, replayed.errors_s
        )
        if algorithm == "slt_dynamic":
            return algorithm, self.dynamic(real_s, segments)
        schedule = pat.schedule(
            algorithm, self.ranks, segments, arrivals_s or None, segment_time_s=segment_time_s
        )
        return algorithm, self.after(schedule, real_s, max(real_s))

    def after(self, schedule: pat.Schedule, arrivals_s: Sequence[float], last_s: float) -> float:
        """Simulate: from `last_s` to the last result, in M*beta."""
        result = pat.simulate(schedule, LINK, self.message_bytes, arrivals_s)
        return (max(result.finish_s) - last_s) / self.transfer_s

    def measure(self, replayed: Replayed) -> tuple[dict[str, float], str]:
        """Simulate one iteration in every way; also tell what `auto` chose."""
        real_s = replayed.iteration.arrivals_s
        last_s = max(real_s)
        predicted_s = replayed.said_s.get(COMBINED, [0.0] * self.ranks)
        chosen, auto_after = self.auto(replayed)
        after = {
            "ring": self.after(self.ring, real_s, last_s),
            "predicted": self.after(self.slt(predicted_s), real_s, last_s),
            "dynamic": self.dynamic(real_s, self.segments("slt_dynamic")),
            "perfect": self.after(self.slt(real_s), real_s, last_s),
            "auto": auto_after,
        }
        return after, chosen


def simulate_stage(
    iterations: Sequence[traces.Iteration],
) -> Iterator[tuple[dict[str, float], str]]:
    """Simulate every iteration of one stage: {way: after}, what `auto` chose."""
    median_spread_s = statistics.median(iteration.spread_s for iteration in iterations)
    job = Job(len(iterations[0].arrivals_s), median_spread_s)
    for replayed in replay(iterations, "decision"):
        yield job.measure(replayed)


def measure(name: str, stages: dict[int, list[traces.Iteration]]) -> list[Record]:
    """Simulate a trace; a record per way."""
    simulated = [row for iterations in stages.values() for row in simulate_stage(iterations)]
    chosen = [algorithm for _, algorithm in simulated]
    records = []
    for way in WAYS:
        after = [row[way] for row, _ in simulated]
        record: Record = {
            "trace": name,
            "ranks": len(next(iter(stages.values()))[0].arrivals_s),
            "iterations": len(after),
            "way": way,
            "mean_after": round(statistics.fmean(after), 4),
            "median_after": round(statistics.median(after), 4),
            "largest_after": round(max(after), 4),
            "latency_s": LINK.latency_s,
            "bytes_per_s": LINK.bytes_per_s,
            "reduce_bytes_per_s": LINK.reduce_bytes_per_s,
        }
        if way == "auto":
            record["chosen"] = {
                algorithm: chosen.count(algorithm) for algorithm in sorted(set(chosen))
            }
        records.append(record)
    return records


def print_table(records: list[Record]) -> None:
    """Print a row per trace, a column per way."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=125, highlight=False)
    table = Table(title="after / M*beta: mean (median, largest)")
    table.add_column("trace")
    for way in WAYS:
        table.add_column(way, justify="right")
    for name in dict.fromkeys(record["trace"] for record in records):
        of = {record["way"]: record for record in records if record["trace"] == name}
        cells = [
            f"{of[way]['mean_after']:.2f} ({of[way]['median_after']:.2f}, "
            f"{of[way]['largest_after']:.2f})"
            for way in WAYS
        ]
        table.add_row(f"{name}, P = {of['ring']['ranks']}", *cells)
    console.print(table)
    for record in records:
        if "chosen" in record:
            chosen = ", ".join(f"{n} x {name}" for name, n in sorted(record["chosen"].items()))
            console.print(f"{record['trace']}: auto chose {chosen}")


def draw(records: list[Record], path: Path) -> None:
    """Draw a group of bars per trace."""
    names = list(dict.fromkeys(record["trace"] for record in records))
    picture = figure(8, 3.5)
    axes = picture.subplots()
    for i, way in enumerate(WAYS):
        heights = [r["mean_after"] for r in records if r["way"] == way]
        places = [k + (i - (len(WAYS) - 1) / 2) * 0.16 for k in range(len(names))]
        axes.bar(places, heights, 0.15, label=way)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("last arrival to last result, M*beta")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    save(picture, path)


if __name__ == "__main__":
    run_on_traces("wrong_order", __doc__, measure, print_table, draw)
