"""Clairvoyant all-reduce against ring, slt and prr, and against what nothing can beat: simulated.

    python -m benchmarks.clairvoyant_allreduce
    python -m benchmarks.clairvoyant_allreduce --ranks 8 --bytes 1MiB 4MiB --latency-us 50

For every number of ranks, size, pattern and delay: makespan (first arrival to last finish) and
average elapsed, over their lower bounds (`patallreduce.lower_bound`). Delays are told in transfers
of the whole message, M * beta. The rivals have whichever number of segments is best for them, found
for each measure by doubling and halving; clairvoyant the one that the package chooses. `others` are
this package's remaining all-reduces, arrival-blind, with the segments that it chooses.

Every rank is told the true arrivals. Writes one JSON line per case, and a picture of them all, to
OUT/clairvoyant_allreduce.*, and prints tables.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import patallreduce as pat
from benchmarks import traces
from benchmarks.allreduce import parse_bytes
from patallreduce import patterns
from patallreduce.pictures import figures
from patallreduce.pricing.comparison import Bucket, make_schedule
from patallreduce.pricing.selection import choose_segments
from patallreduce.text.table import text_table

RIVALS = ("ring", "slt", "prr")
OTHERS = ("recursive_doubling", "rabenseifner", "two_tree", "radix_k")
SIZES_BYTES = (1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
RANKS = (4, 8, 16, 48)
DELAYS = (0.3, 1.0, 3.0)
LEAST_SEGMENT_BYTES = 64
SEED = 1

Record = dict[str, Any]


def trace_delays(ranks: int, delay_s: float) -> list[float]:
    """Delays seen on 32 ranks, the largest made `delay_s`; more ranks: of further iterations."""
    iterations = traces.read("SE")[0]
    late_s: list[float] = []
    for iteration in iterations:
        first_s = min(iteration.arrivals_s)
        late_s += [arrival_s - first_s for arrival_s in iteration.arrivals_s]
    # The iteration's last rank among those taken, so that there is a late one.
    last = iterations[0].last_rank
    begin = max(0, min(last - ranks // 2, 32 - ranks)) if ranks <= 32 else 0
    taken_s = late_s[begin : begin + ranks]
    return [delay_s * each_s / max(taken_s) for each_s in taken_s]


# Ranks and delay to arrivals; CLV16's, their parameters as in benchmarks/arrivals_worker.py but for
# Bernoulli's probability, which makes a quarter of the ranks late on average.
PATTERNS: dict[str, Callable[[int, float], list[float]]] = {
    "balanced": lambda ranks, _: patterns.balanced(ranks),
    "one late": patterns.one_late,
    "alternating": lambda ranks, delay_s: patterns.alternating(ranks, 0.0, delay_s),
    "uniform": lambda ranks, delay_s: patterns.uniform(ranks, delay_s, seed=SEED),
    "normal": lambda ranks, delay_s: patterns.normal(ranks, delay_s / 4, seed=SEED),
    "gamma": lambda ranks, delay_s: patterns.gamma(ranks, delay_s / 4, seed=SEED),
    "bernoulli": lambda ranks, delay_s: patterns.bernoulli(ranks, delay_s, 0.25, seed=SEED),
    "trace": trace_delays,
}


def cases(ranks: int, link: pat.Link, sizes_bytes: Sequence[int]) -> Iterator[Record]:
    """Measure every size, pattern and delay."""
    for message_bytes in sizes_bytes:
        for pattern, arrivals in PATTERNS.items():
            for delay in DELAYS if pattern != "balanced" else (0.0,):
                arrivals_s = arrivals(ranks, delay * link.transfer_s(message_bytes))
                yield {
                    "ranks": ranks,
                    "bytes": message_bytes,
                    "pattern": pattern,
                    "delay": delay,
                    **measure(ranks, message_bytes, link, arrivals_s),
                }


def measure(ranks: int, message_bytes: int, link: pat.Link, arrivals_s: Sequence[float]) -> Record:
    """Price one case; all seconds count from the first arrival."""
    first_s = min(arrivals_s)
    bound = pat.lower_bound(link, message_bytes, arrivals_s)

    def price(name: str, segments: int | None) -> tuple[float, float]:
        bucket = Bucket(ranks, message_bytes, link, segments)
        found = pat.simulate(
            make_schedule(name, bucket, arrivals_s), link, message_bytes, arrivals_s
        )
        return max(found.finish_s) - first_s, found.average_elapsed_s

    start_s = time.process_time()
    schedule = make_schedule("clairvoyant", Bucket(ranks, message_bytes, link), arrivals_s)
    made_s = time.process_time() - start_s
    found = pat.simulate(schedule, link, message_bytes, arrivals_s)
    return {
        "bound": [bound.last_finish_s - first_s, bound.average_elapsed_s],
        "clairvoyant": [max(found.finish_s) - first_s, found.average_elapsed_s],
        "segments": schedule.segments,
        "messages": sum(s.verb == "send" for r in range(ranks) for s in schedule.steps(r)),
        "made_s": round(made_s, 4),
        "rivals": {name: tuned(name, ranks, message_bytes, link, price) for name in RIVALS},
        "others": {name: price(name, None) for name in OTHERS},
    }


def tuned(
    name: str,
    ranks: int,
    message_bytes: int,
    link: pat.Link,
    price: Callable[[str, int | None], tuple[float, float]],
) -> Record:
    """Find the least makespan and the least average, and the segments of each."""
    least = 1 if name == "slt" else ranks
    most = max(message_bytes // LEAST_SEGMENT_BYTES, least)
    start = choose_segments(name, ranks, message_bytes, message_bytes // 4, link)

    @cache
    def priced(segments: int) -> tuple[float, float]:
        return price(name, segments)

    best: Record = {}
    for measure, key in enumerate(("makespan", "average")):
        segments = min(max(start, least), most)
        for factor in (2.0, 0.5):
            while least <= (following := math.ceil(segments * factor)) <= most:
                if following == segments or priced(following)[measure] >= priced(segments)[measure]:
                    break
                segments = following
        best[key] = [priced(segments)[measure], segments]
    return best


def ratios(record: Record) -> tuple[float, float]:
    """Makespan and average of clairvoyant over those of the best of ring, slt and prr."""
    rivals = record["rivals"].values()
    makespan_s, average_s = record["clairvoyant"]
    return (
        makespan_s / min(rival["makespan"][0] for rival in rivals),
        average_s / min(rival["average"][0] for rival in rivals),
    )


def size_text(size_bytes: int) -> str:
    """Sizes are powers of two."""
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


def print_tables(records: Sequence[Record]) -> None:
    """Print a table for each number of ranks, and what it all comes to."""
    for ranks in dict.fromkeys(record["ranks"] for record in records):
        rows = []
        for record in (record for record in records if record["ranks"] == ranks):
            rivals, bound = record["rivals"], record["bound"]
            best = min(rivals, key=lambda name: rivals[name]["makespan"][0])
            least_average_s = min(rival["average"][0] for rival in rivals.values())
            makespan, average = ratios(record)
            rows.append(
                [
                    size_text(record["bytes"]),
                    record["pattern"],
                    f"{record['delay']:g}",
                    f"{bound[0] * 1e3:.2f}",
                    f"{record['clairvoyant'][0] / bound[0]:.3f}",
                    f"{rivals[best]['makespan'][0] / bound[0]:.3f}",
                    f"{best} {rivals[best]['makespan'][1]}",
                    f"{makespan:.3f}",
                    f"{record['clairvoyant'][1] / bound[1]:.3f}",
                    f"{least_average_s / bound[1]:.3f}",
                    f"{average:.3f}",
                ]
            )
        headings = (
            "bytes\n",
            "pattern\n",
            "delay\nM*beta",
            "bound\nms",
            "makespan/bound\nclairvoyant",
            "\nbest rival",
            "\nwhich, segments",
            "\nratio",
            "average/bound\nclairvoyant",
            "\nbest rival",
            "\nratio",
        )
        print(f"\n{ranks} ranks\n{text_table(headings, rows, left=(0, 1, 6))}")
    print(summary(records))


def summary(records: Sequence[Record]) -> str:
    """Where it wins and where it loses."""
    makespans = sorted(ratios(record)[0] for record in records)
    averages = [ratios(record)[1] for record in records]
    others = [
        record["clairvoyant"][0] / min(price[0] for price in record["others"].values())
        for record in records
    ]
    least = [
        record["clairvoyant"][0]
        / min(
            *(price[0] for price in record["others"].values()),
            *(rival["makespan"][0] for rival in record["rivals"].values()),
        )
        for record in records
    ]
    count = len(records)
    lines = [
        f"\n{count} cases. Makespan over that of the best of {', '.join(RIVALS)}: "
        f"{makespans[0]:.3f} to {makespans[-1]:.3f}, median {makespans[count // 2]:.3f}; "
        f"better by 5 % or more in {sum(ratio <= 0.95 for ratio in makespans)}, "
        f"worse by more than 1 % in {sum(ratio > 1.01 for ratio in makespans)}",
        f"average elapsed over the best of theirs: {min(averages):.3f} to {max(averages):.3f}; "
        f"better by 5 % in {sum(ratio <= 0.95 for ratio in averages)}, worse by more than 1 % in "
        f"{sum(ratio > 1.01 for ratio in averages)}",
        f"makespan over that of the best of {', '.join(OTHERS)}: {min(others):.3f} to "
        f"{max(others):.3f}; of the best of all these: {min(least):.3f} to {max(least):.3f}, "
        f"better by 5 % or more in {sum(ratio <= 0.95 for ratio in least)}",
    ]
    return "\n".join(lines)


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw makespan over the best rival's: a panel per number of ranks."""
    every = list(dict.fromkeys(record["ranks"] for record in records))
    sizes = list(dict.fromkeys(record["bytes"] for record in records))
    rows = list(dict.fromkeys((record["pattern"], record["delay"]) for record in records))
    figure = figures.figure(3 + 2.6 * len(every), 1.5 + 0.28 * len(rows))
    panels = figure.subplots(1, len(every), sharey=True, squeeze=False)[0]
    for panel, ranks in zip(panels, every, strict=True):
        cells = {
            (record["pattern"], record["delay"], record["bytes"]): ratios(record)[0]
            for record in records
            if record["ranks"] == ranks
        }
        grid = [[cells.get((*row, size), math.nan) for size in sizes] for row in rows]
        image = panel.imshow(grid, aspect="auto", cmap="RdBu_r", vmin=0.7, vmax=1.3)
        for y, line in enumerate(grid):
            for x, ratio in enumerate(line):
                colour = "white" if abs(ratio - 1) > 0.2 else "black"
                panel.text(x, y, f"{ratio:.2f}", color=colour, ha="center", va="center", fontsize=7)
        panel.set_title(f"{ranks} ranks", loc="left")
        panel.set_xticks(range(len(sizes)), [size_text(size) for size in sizes], rotation=60)
    panels[0].set_yticks(
        range(len(rows)),
        [f"{name}, {delay:g} M$\\beta$" if delay else name for name, delay in rows],
    )
    figure.colorbar(
        image, ax=list(panels), label="makespan: clairvoyant / best of ring, slt, prr", shrink=0.6
    )
    figures.save(figure, path)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clairvoyant_allreduce",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--bytes", type=parse_bytes, nargs="+", default=list(SIZES_BYTES))
    parser.add_argument("--latency-us", type=float, default=20.0)
    parser.add_argument("--mbit", type=float, default=1000.0, help="of one port, per second")
    parser.add_argument("--reduce-bytes-per-s", type=float, default=5e9)
    parser.add_argument("--out", type=Path, default=Path("out/clairvoyant"), help="folder")
    parser.add_argument("--print-only", action="store_true", help="the records in OUT")
    return parser.parse_args(arguments)


def main() -> None:
    """Price every case, write and print it."""
    options = parse_arguments()
    results = options.out / "clairvoyant_allreduce.jsonl"
    if not options.print_only:
        link = pat.Link(options.latency_us * 1e-6, options.mbit * 125e3, options.reduce_bytes_per_s)
        options.out.mkdir(parents=True, exist_ok=True)
        with results.open("w", encoding="utf-8") as lines:
            for ranks in options.ranks:
                for record in cases(ranks, link, options.bytes):
                    record["latency_us"], record["mbit"] = options.latency_us, options.mbit
                    print(json.dumps(record), file=lines, flush=True)
    records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    print_tables(records)
    draw(records, results.with_suffix(".png"))


if __name__ == "__main__":
    main()
