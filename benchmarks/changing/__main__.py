"""How soon does a job answer a port that becomes narrower while it trains, and wide again?

    python -m benchmarks.changing --ranks 8 --network 200mbit --rank 3 --to 100mbit

Trains layers that sleep, nobody late, on an emulated network. Before iteration `--at` the port of
one rank is set to another rate, in both directions, and before iteration `--back` to its own again.
Every hook does so in a run of its own, from its first iteration on. *answered*: after how many
iterations the next one, and the next five by their median, take no more than 1.05 of the median of
the last ten before the next change.

Writes one JSON line per hook and a picture of the iterations' times, prints a table. The ranks run
worker.py.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.lab.arguments import add_out, command_line, parse_bytes
from benchmarks.lab.loopback import Loopback
from benchmarks.lab.network import Network, parse_rate
from benchmarks.lab.plan import Record, end_on_sigterm, make_plan, run_plan
from patallreduce.pictures.figures import figure, save

LAST, NEXT, NEAR = 10, 5, 1.05


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("changing", __doc__)
    parser.add_argument("--network", default="200mbit", help="a rate")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--bytes", type=parse_bytes, default=4 << 20, help="of gradients")
    parser.add_argument("--buckets", type=int, default=1)
    parser.add_argument("--computation-s", type=float, default=0.1, help="of every rank, asleep")
    parser.add_argument("--rank", type=int, default=3, help="whose port changes")
    parser.add_argument("--to", default="100mbit", help="the rate that it is set to")
    parser.add_argument("--at", type=int, default=40, help="the first iteration with that rate")
    parser.add_argument("--back", type=int, default=80, help="the first one with the old rate")
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--hooks", nargs="+", default=["gloo", "ring", "auto"])
    add_out(parser, "out/changing", 900.0)
    options = parser.parse_args()
    if not LAST < options.at < options.back - LAST < options.iterations - 2 * LAST:
        parser.error(f"--at, --back and --iterations: expected more than {LAST} between them")
    return options


def answered(record: Record, first: int, end: int) -> int | None:
    """After how many of these iterations it takes what it takes in the end; None: it does not."""
    times_s = record["iterations_s"][first:end]
    settled_s = statistics.median(times_s[-LAST:])
    for waited in range(len(times_s) - NEXT):
        next_s = times_s[waited : waited + NEXT]
        if max(next_s[0], statistics.median(next_s)) <= NEAR * settled_s:
            return waited
    return None


def print_table(records: list[Record]) -> None:
    """One row per hook: what an iteration takes, and how soon the change is answered."""
    table = Table(title="Iterations, medians of the last ten, ms")
    for column in ("hook", "before", "narrow", "answered", "back", "answered"):
        table.add_column(column, justify="left" if column == "hook" else "right")
    for record in records:
        borders = [0, *record["changes"], len(record["iterations_s"])]
        row = [record["hook"]]
        for first, end in itertools.pairwise(borders):
            last_s = statistics.median(record["iterations_s"][end - LAST : end])
            row.append(f"{last_s * 1e3:.0f}")
            if first:
                row.append(str(answered(record, first, end)))
        table.add_row(*row)
    Console(width=100).print(table)


def draw(records: list[Record], path: Path) -> None:
    """Draw what each iteration took."""
    picture = figure(8, 4)
    axes = picture.subplots()
    for record in records:
        axes.plot([s * 1e3 for s in record["iterations_s"]], label=record["hook"])
    label = f"rank {records[0]['rank']} at {records[0]['to']}"
    axes.axvspan(*records[0]["changes"], alpha=0.15, color="grey", label=label)
    axes.set_xlabel("iteration")
    axes.set_ylabel("iteration time, ms")
    axes.set_ylim(bottom=0)
    axes.legend()
    save(picture, path)


def main() -> None:
    """Run the benchmark."""
    options = parse_arguments()
    end_on_sigterm()
    plan = make_plan(options, "changing.jsonl")
    wanted = Path(plan["results"] + ".rate")
    wanted.unlink(missing_ok=True)

    def attend(network: Network) -> None:
        """Set the rates that rank 0 asks for."""
        while network.namespaces:
            if wanted.exists() and (text := wanted.read_text()).endswith("\n"):
                network.set_rate(options.rank, parse_rate(text.strip()))
                wanted.unlink()
            time.sleep(0.005)

    def begin(network: Network | Loopback) -> None:
        assert isinstance(network, Network)
        threading.Thread(target=attend, args=(network,), daemon=True).start()

    records = run_plan(plan, [options.ranks], "benchmarks.changing.worker", begin)
    print_table(records)
    draw(records, options.out / "changing.png")
    print(f"picture: {options.out / 'changing.png'}; records: {plan['results']}")


if __name__ == "__main__":
    main()
