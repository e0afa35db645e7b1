"""What do the others meet when a rank has a fault?  All faults, moments, transports and victims.

    python -m tests.matrix --sample 60 --fault kill stop

Every cell is a run of three ranks, processes over UCX, of which one has a fault (cells.py says
which, and what has to come of it). Prints a table and what differs; exit status 1 if anything does.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import defaultdict

from benchmarks.lab.namespaces import enter_user_namespace

from . import hosts
from .cells import MOMENTS, TRANSPORTS, Cell, cells
from .run import Outcome, outcomes


def show(done: list[Outcome]) -> None:
    """One line per fault and moment."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(done)} cells")
    table.add_column("fault")
    table.add_column("moment")
    for column in ("cells", "not as promised", "noticed after at most"):
        table.add_column(column, justify="right")
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in done:
        groups[outcome.cell.fault, outcome.cell.moment].append(outcome)
    for (fault, moment), group in groups.items():
        longest_s = max(outcome.noticed_s for outcome in group)
        wrong = sum(bool(outcome.problems) for outcome in group)
        table.add_row(fault, moment, str(len(group)), str(wrong), f"{longest_s:.2f} s")
    Console().print(table)


def runnable(wanted: list[Cell]) -> list[Cell]:
    """Those that this machine can run; says which it cannot."""
    lacking = {cell: hosts.lacking(cell) for cell in wanted}
    for cell, why in lacking.items():
        if why:
            print(f"{cell}: skipped: {why}")
    return [cell for cell in wanted if not lacking[cell]]


def main() -> None:
    """Run cells."""
    enter_user_namespace()
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sample", type=int, help="so many, drawn at random (all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument("--at-once", type=int, default=3, help="cells (%(default)s)")
    parser.add_argument("--fault", nargs="+", choices=list(MOMENTS))
    parser.add_argument("--moment", nargs="+")
    parser.add_argument("--transport", nargs="+", choices=TRANSPORTS)
    options = parser.parse_args()
    wanted = [
        cell
        for cell in cells()
        if (not options.fault or cell.fault in options.fault)
        and (not options.moment or cell.moment in options.moment)
        and (not options.transport or cell.transport in options.transport)
    ]
    if options.sample:
        random.Random(options.seed).shuffle(wanted)
        wanted = wanted[: options.sample]
    wanted, drawn = runnable(wanted), len(wanted)
    before = set(os.listdir("/dev/shm"))
    done = []
    for outcome in outcomes(wanted, options.at_once):
        done.append(outcome)
        for problem in outcome.problems:
            print(f"{outcome.cell}: {problem}", flush=True)
    show(done)
    if drawn > len(done):
        print(f"{drawn - len(done)} more were skipped")
    left = sorted(set(os.listdir("/dev/shm")) - before)
    if left:
        print(f"left in /dev/shm: {', '.join(left)}")
    sys.exit(bool(left) or any(outcome.problems for outcome in done))


if __name__ == "__main__":
    main()
