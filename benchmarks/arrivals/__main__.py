"""The papers' benchmark: what do late ranks cost each algorithm, on average and after the last?

    python -m benchmarks.arrivals --ranks 8 --network 200mbit --bytes 4MiB \
        --modes one-late rand-late --delays 0 0.05 0.1 0.3 0.5 1 \
        --algorithms ring slt prr auto gloo openmpi

One iteration, for every algorithm in turn (A B A B) with the same random data and delays:

    barrier, barrier, edge(0) | sleep half | edge(0.5) | sleep half | all-reduce | check, gather

where half = (largest delay + computation + own delay) / 2. `one-late` delays rank 1 by the largest
delay, `rand-late` every rank by a share of it drawn uniformly: the paper's. Others on demand:
`three-late` delays the last three ranks, `alternating` every second one, `bernoulli` each with
probability 1 / P; `normal` and `gamma` have a quarter of the largest delay for deviation and mean.
As in the paper the computation grows with the largest delay: every rank has passed its edge before
the first one arrives.
Fig. 9 prints half + delay for the late rank, which is late twice; its Table 3 has it late once.

`slt`, `prr` and `clairvoyant` are told the true delays, more than any monitor could know; `auto` is
told nothing but its progress. `--iterations` and `--delays` pair up: few long, many short ones.

Writes one JSON line per case and algorithm to OUT/arrivals.jsonl, a picture per parameter that has
several values, and prints tables. The ranks run worker.py.

Source: Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 5, Fig. 9.
"""

from __future__ import annotations

import argparse

from benchmarks.lab.arguments import (
    add_network,
    add_out,
    check_installed,
    command_line,
    one_for_each,
)
from benchmarks.lab.plan import end_on_sigterm, make_plan, run_plan
from benchmarks.lab.rivals import PATALLREDUCE, RIVALS

from .report import draw, print_tables
from .worker import MODES, PATTERNS


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("arrivals", __doc__)
    add_network(parser)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=[*MODES, *PATTERNS])
    parser.add_argument(
        "--delays",
        type=float,
        nargs="+",
        default=[0, 0.05, 0.1, 0.3, 0.5, 1],
        help="largest delays, seconds",
    )
    parser.add_argument(
        "--computation-s", type=float, default=0.1, help="of every rank, beside the largest delay"
    )
    parser.add_argument(
        "--iterations",
        type=int,
        nargs="+",
        default=[7],
        help="timed for each algorithm; one number, or one for each delay",
    )
    parser.add_argument(
        "--warm-up", type=int, default=5, help="iterations of auto before each case, not timed"
    )
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=["ring", "slt", "prr", "auto", "gloo"],
        choices=[*PATALLREDUCE, *RIVALS],
    )
    parser.add_argument("--seed", type=int, default=1, help="of data and delays")
    add_out(parser, "out/arrivals", 3600.0)
    options = parser.parse_args(arguments)
    options.iterations = one_for_each(parser, options.iterations, options.delays, "delay")
    if min(options.iterations) < 1 or options.warm_up < 0:
        parser.error("--iterations and --warm-up: expected at least 1 and at least 0")
    if min(options.delays) < 0 or options.computation_s < 0:
        parser.error("--delays and --computation-s: nobody can be early")
    if min(options.ranks) < 2:
        parser.error(f"--ranks: expected at least 2, got {min(options.ranks)}")
    check_installed(parser, options.algorithms)
    return options


def main() -> None:
    """Measure every case, then print the tables and draw the pictures."""
    options = parse_arguments()
    end_on_sigterm()
    plan = make_plan(options, "arrivals.jsonl")
    records = run_plan(plan, options.ranks, "benchmarks.arrivals.worker")
    print_tables(records)
    print(f"records: {plan['results']}")
    for picture in draw(records, options.out):
        print(f"picture: {picture.resolve()}")


if __name__ == "__main__":
    main()
