"""What does a decision lose that does not know of arrivals?  Simulated on real arrivals.

    python -m benchmarks.arrival_classes --results out/arrival_classes.jsonl

TUNE07's decision maps take ranks and bytes: all ranks arrive together. Here they have one axis
more, the class of the arrivals, each with a delay in powers of two of a transfer of the message:

    none      nearly together: within a twentieth of the transfer
    one late  the last one is behind the next by at least half of the spread, which is the delay
    spread    any other: the delay is from the first to the last

A map with the axis says what is fastest where one rank is late by the delay, or all are spread
evenly over it; a map without, what is fastest where nobody is, and its schedules know of no
arrivals. `auto` knows the arrivals themselves and prices them. All three are asked for each
iteration of the traces, for messages of which a transfer takes a tenth to ten times the trace's
median spread: 64 MiB, or less, so that no link is faster than 10 Gbit/s.

Fastest is what has the least average elapsed time, from a rank's arrival to its finish, as papers
on arrivals measure it; the penalty is that of the choice over that of the fastest algorithm with a
schedule for the arrivals that come, less one. `auto` minimises when the last rank is done, so its
penalty by that is told, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import traces
from benchmarks.lab.plan import Record
from benchmarks.traces.command import run_on_traces
from patallreduce import Link, _core
from patallreduce.patterns import one_late
from patallreduce.pictures.figures import BLUE, VERMILION, YELLOW, figure, save
from patallreduce.pricing.bucket import Bucket
from patallreduce.pricing.comparison import Price, compare

ELEMENT_BYTES = 4
LATENCY_S = 20e-6
MOST_BYTES, MOST_BYTES_PER_S = 64 << 20, 1.25e9
TRANSFERS = (0.1, 0.5, 2.0, 10.0)  # of a message, in median spreads of the trace
TOGETHER = 1 / 20
POWERS = range(-4, 5)
LAST = "auto, by the last"
WAYS = {"without": YELLOW, "with classes": BLUE, "auto": VERMILION}

Class = tuple[str, int]  # and the delay's power of two


def class_of(arrivals_s: Sequence[float], transfer_s: float) -> Class:
    """Of one iteration's arrivals."""
    *others, last_s = sorted(arrivals_s)
    spread_s, ahead_s = last_s - others[0], last_s - others[-1]
    if spread_s <= TOGETHER * transfer_s:
        return "none", 0
    name, delay_s = ("one late", ahead_s) if ahead_s >= spread_s / 2 else ("spread", spread_s)
    power = round(math.log2(delay_s / transfer_s))
    return name, min(max(power, POWERS[0]), POWERS[-1])


def like(of: Class, ranks: int, transfer_s: float) -> list[float]:
    """Arrivals of a class, as its map has them."""
    name, power = of
    delay_s = transfer_s * 2.0**power
    if name == "none":
        return [0.0] * ranks
    if name == "one late":
        return one_late(ranks, delay_s)
    return [delay_s * rank / (ranks - 1) for rank in range(ranks)]


def prices_of(bucket: Bucket, arrivals_s: Sequence[float]) -> dict[str, Price]:
    """By algorithm."""
    return {price.algorithm: price for price in compare(bucket, [arrivals_s])[0]}


def averages_s(bucket: Bucket, arrivals_s: Sequence[float]) -> dict[str, float]:
    """By algorithm."""
    return {name: price.average_elapsed_s for name, price in prices_of(bucket, arrivals_s).items()}


def measure(name: str, stages: dict[int, list[traces.Iteration]]) -> list[Record]:
    """A record of each size of a message."""
    every = [iteration.arrivals_s for of in stages.values() for iteration in of]
    ranks = len(every[0])
    spread_s = statistics.median(max(row) - min(row) for row in every)
    records = []
    for transfers in TRANSFERS:
        transfer_s = transfers * spread_s
        elements = int(min(MOST_BYTES, transfer_s * MOST_BYTES_PER_S)) // ELEMENT_BYTES
        message_bytes = elements * ELEMENT_BYTES
        link = Link(LATENCY_S, message_bytes / transfer_s)
        bucket = Bucket(ranks, message_bytes, link)
        selector = _core.Selector(ranks, link)
        fastest: dict[Class, str] = {}

        def by_class(of: Class, bucket: Bucket = bucket, known: dict[Class, str] = fastest) -> str:
            if of not in known:
                transfer_s = bucket.link.transfer_s(bucket.message_bytes)
                times_s = averages_s(bucket, like(of, bucket.ranks, transfer_s))
                known[of] = min(times_s, key=times_s.__getitem__)
            return known[of]

        lost: dict[str, list[float]] = {way: [] for way in WAYS}
        last_lost = []
        counts: dict[str, int] = {}
        for row in every:
            arrivals_s = [at_s - min(row) for at_s in row]
            prices = prices_of(bucket, arrivals_s)
            of = class_of(arrivals_s, transfer_s)
            counts[of[0]] = counts.get(of[0], 0) + 1
            chosen = {
                "without": by_class(("none", 0)),
                "with classes": by_class(of),
                "auto": selector.choose(elements, ELEMENT_BYTES, arrivals_s)[0],
            }
            unforeseen = prices_of(replace(bucket, foreseen=False), arrivals_s)
            least_s = min(price.average_elapsed_s for price in prices.values())
            for way, algorithm in chosen.items():
                price = (unforeseen if way == "without" else prices)[algorithm]
                lost[way].append(price.average_elapsed_s / least_s - 1)
            least_s = min(price.run_time_s for price in prices.values())
            last_lost.append(prices[chosen["auto"]].run_time_s / least_s - 1)
        records.append(
            {
                "trace": name,
                "ranks": ranks,
                "iterations": len(every),
                "transfer_in_spreads": transfers,
                "message_bytes": message_bytes,
                "classes": counts,
                "mean": {way: statistics.fmean(values) for way, values in lost.items()},
                "most": {way: max(values) for way, values in lost.items()},
                "auto_last": {"mean": statistics.fmean(last_lost), "most": max(last_lost)},
            }
        )
    return records


def print_table(records: list[Record]) -> None:
    """For a reader."""
    table = Table(title="penalty, %: mean, most", title_justify="left")
    for heading in ("trace", "ranks", "transfer / spread", "none, one late, spread", *WAYS, LAST):
        table.add_column(heading, justify="left" if heading == "trace" else "right")
    for record in records:
        counts = [str(record["classes"].get(name, 0)) for name in ("none", "one late", "spread")]
        table.add_row(
            record["trace"],
            str(record["ranks"]),
            f"{record['transfer_in_spreads']:g}",
            ", ".join(counts),
            *(f"{100 * record['mean'][way]:.1f}, {100 * record['most'][way]:.0f}" for way in WAYS),
            f"{100 * record['auto_last']['mean']:.1f}, {100 * record['auto_last']['most']:.0f}",
        )
    Console(width=120).print(table)


def draw(records: list[Record], path: Path) -> None:
    """Mean penalties, one group of bars for each trace and size."""
    picture = figure(9, 3.6)
    panel = picture.subplots()
    for number, (way, colour) in enumerate(WAYS.items()):
        places = [place + (number - 1) * 0.27 for place in range(len(records))]
        means = [100 * record["mean"][way] for record in records]
        panel.bar(places, means, 0.27, color=colour, label=way)
    panel.set_xticks(
        range(len(records)),
        [f"{r['trace']}\n{r['transfer_in_spreads']:g}" for r in records],
    )
    panel.set_xlabel("trace; a transfer of the message in median spreads of its arrivals")
    panel.set_ylabel("mean penalty, average elapsed, %")
    panel.set_title("A decision that knows of arrivals, and one that does not")
    panel.legend(loc="upper left", bbox_to_anchor=(0.28, 1))
    save(picture, path)


if __name__ == "__main__":
    run_on_traces("arrival_classes", __doc__, measure, print_table, draw)
