"""Does the simulator say what the network does? Every all-reduce measured, then simulated.

    python -m benchmarks.simulated --out benchmarks/results

Eight ranks of the lab. First the network is calibrated (simulated_calibration.py), then every
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
import json
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import patallreduce as pat

from .allreduce import environment, parse_bytes, run_plan
from .lab.__main__ import end_on_sigterm
from .simulated_calibration import fitted, link_of
from .simulated_cells import PATTERNS, cells, summary
from .simulated_report import draw, print_tables

Record = dict[str, Any]


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulated", description=(__doc__ or "").split("\n")[0]
    )
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
    parser.add_argument("--out", type=Path, default=Path("out/simulated"), help="folder")
    parser.add_argument("--timeout-s", type=float, default=1800.0)
    parser.add_argument("--again", action="store_true", help="simulate what is in OUT")
    options = parser.parse_args(arguments)
    if len(options.iterations) == 1:
        options.iterations *= len(options.bytes)
    if len(options.iterations) != len(options.bytes):
        parser.error(
            f"--iterations: expected 1 or {len(options.bytes)} numbers, one for each size, "
            f"got {len(options.iterations)}"
        )
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
    options.out.mkdir(parents=True, exist_ok=True)
    results = (options.out / "simulated.jsonl").resolve()
    if options.again:
        lines = results.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
    else:
        plan: dict[str, Any] = {
            **{name: value for name, value in vars(options).items() if name != "out"},
            "shared_memory": False,
            "results": str(results),
            "environment": environment(),
        }
        records = run_plan(plan, [options.ranks], "benchmarks.simulated_worker", options.timeout_s)
    calls = [record for record in records if "call" in record]
    measured = [record for record in records if "pattern" in record]
    found, networks = simulated(calls, measured)
    link = link_of(records[0])
    all_cells = {
        **summary(found),
        "with_plain_link": summary(cells(measured, link, 2 * link.latency_s)),
        "fitted": networks,
    }
    lines = [json.dumps(record) for record in [records[0], *calls, *found, all_cells]]
    results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print_tables(found, all_cells)
    picture = options.out / "simulated.png"
    draw(found, all_cells, picture)
    print(f"records: {results}\npicture: {picture.resolve()}")


if __name__ == "__main__":
    main()
