"""All-reduce side by side: sizes x algorithms x ranks x arrival patterns, rivals in the same run.

    python -m benchmarks.allreduce --network 200mbit --ranks 8 --bytes 4MiB \
        --algorithms ring slt gloo --late none 1=0.3 1=1

Writes one JSON line per case to OUT/allreduce.jsonl and a picture to OUT/allreduce.png, and prints
a table. `--network` is a rate (an emulated network, see benchmarks/lab) or `shm`: the ranks share
this machine. The ranks themselves run worker.py.
"""

from __future__ import annotations

import argparse

from benchmarks.lab.arguments import add_late, add_network, add_out, check_installed, command_line
from benchmarks.lab.plan import end_on_sigterm, make_plan, run_plan
from benchmarks.lab.rivals import PATALLREDUCE, RIVALS

from .report import draw, print_tables


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("allreduce", __doc__)
    add_network(parser)
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=["ring", "slt", "prr", "gloo"],
        choices=[*PATALLREDUCE, *RIVALS],
    )
    add_late(parser, [{}])
    parser.add_argument("--repeats", type=int, default=7, help="rounds; medians are reported")
    parser.add_argument(
        "--pause-s",
        type=float,
        default=0.0,
        help="before each call that counts, as computation is: TCP forgets what a connection can",
    )
    add_out(parser, "out/allreduce", 1800.0)
    options = parser.parse_args()
    for late in options.late:
        if any(int(rank) not in range(min(options.ranks)) for rank in late):
            parser.error(f"--late names a rank that {min(options.ranks)} ranks do not have")
    check_installed(parser, options.algorithms)
    return options


def main() -> None:
    """Measure every case, then print the table and draw the picture."""
    options = parse_arguments()
    end_on_sigterm()
    plan = make_plan(options, "allreduce.jsonl")
    records = run_plan(plan, options.ranks, "benchmarks.allreduce.worker")
    print_tables(records)
    picture = options.out / "allreduce.png"
    draw(records, picture)
    print(f"records: {plan['results']}\npicture: {picture.resolve()}")


if __name__ == "__main__":
    main()
