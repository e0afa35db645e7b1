"""Does the simulator say what the network does? Every all-reduce measured, then simulated.

    python -m benchmarks.simulated --out benchmarks/results

Eight ranks of the lab. First the network is calibrated (calibration.py), then every
all-reduce of `pat.algorithms()` is measured with six sizes and four patterns of arrivals, whose
delays are multiples of M*beta. What is simulated are the arrivals that there really were, on the
one clock of the machine, with the very schedule that ran; slt_dynamic is simulated as slt in the
order of arrival, each rank by two latencies later, which it takes to learn its place.

Compared are medians of the average elapsed. The error of many cells is their geometric mean,
exp(mean |log(simulated / measured)|) - 1. It is also told for the link of `pat.calibrate` alone,
Hockney's model of messages that take turns: what sharing ports, tokens and calls are good for.

Writes OUT/simulated.jsonl (calibration, cells, summary) and OUT/simulated.png; `--again` simulates
what that file holds once more, without measuring.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import groupby

import patallreduce as pat
from benchmarks.lab.arguments import add_out, command_line, one_for_each, parse_bytes
from benchmarks.lab.plan import (
    Record,
    end_on_sigterm,
    make_plan,
    read_records,
    run_plan,
    write_records,
)

from .calibration import fitted, link_of
from .cells import PATTERNS, cells, summary
from .report import draw, print_tables


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("simulated", __doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--network", default="200mbit", help="a rate")
    parser.add_argument(
        "--bytes",
        type=parse_bytes,
        nargs="+",
        default=[4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20],
    )
    parser.add_argument(
        "--iterations",
        type=int,
        nargs="+",
        default=[9, 9, 7, 5, 4, 2],
        help="timed for each cell; one number, or one for each size",
    )
    parser.add_argument("--patterns", nargs="+", default=list(PATTERNS), choices=PATTERNS)
    parser.add_argument("--delay", type=float, default=1.0, help="the largest, in M*beta")
    parser.add_argument(
        "--algorithms", nargs="+", default=list(pat.algorithms()), choices=pat.algorithms()
    )
    parser.add_argument("--seed", type=int, default=1, help="of the uniform delays")
    add_out(parser, "out/simulated", 1800.0)
    parser.add_argument("--again", action="store_true", help="simulate what is in OUT")
    options = parser.parse_args(arguments)
    options.iterations = one_for_each(parser, options.iterations, options.bytes, "size")
    if options.ranks < 2 or min(options.iterations) < 1 or options.delay < 0:
        parser.error("--ranks, --iterations and --delay: expected at least 2, 1 and 0")
    return options


def simulated(calls: list[Record], measured: list[Record]) -> tuple[list[Record], Record]:
    """Simulate every cell with the network as it was right before and after its size.

    Returns the cells, and by size in bytes the networks.
    """
    found: list[Record] = []
    networks: Record = {}
    for number, of in groupby(measured, key=lambda record: record["round"]):
        network = fitted([call for call in calls if number <= call["round"] <= number + 1])
        fields = asdict(network)
        # Two messages that tell of an arrival, each for L and both overheads.
        control_s = 2 * fields["links"]["latency_s"] + 4 * fields["links"]["overhead_s"]
        found += cells(of, network, control_s)
        networks[str(found[-1]["bytes"])] = fields
    return found, networks


def main() -> None:
    """Measure, simulate, print the tables and draw the picture."""
    options = parse_arguments()
    end_on_sigterm()
    results = options.out / "simulated.jsonl"
    if options.again:
        records = read_records(results)
    else:
        plan = make_plan(options, results.name)
        records = run_plan(plan, [options.ranks], "benchmarks.simulated.worker")
    calls = [record for record in records if "call" in record]
    measured = [record for record in records if "pattern" in record]
    found, networks = simulated(calls, measured)
    link = link_of(records[0])
    all_cells = {
        **summary(found),
        "with_plain_link": summary(cells(measured, link, 2 * link.latency_s)),
        "fitted": networks,
    }
    write_records(results, [records[0], *calls, *found, all_cells])
    print_tables(found, all_cells)
    picture = options.out / "simulated.png"
    draw(found, all_cells, picture)
    print(f"records: {results.resolve()}\npicture: {picture.resolve()}")


if __name__ == "__main__":
    main()
