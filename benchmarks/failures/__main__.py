"""What do the others see when a rank is killed or stopped?  Prints a table, or JSON lines.

    python -m benchmarks.failures --rounds 100

Every round starts 4 rank processes over UCX on this machine and sends SIGKILL or SIGSTOP to one of
them: before it calls an all-reduce that the others are in, during a large one, or after the last.
The others must raise an error that names it, a kill within 2 s, a stop by the deadline; then they
must close and exit cleanly, leaving no thread, descriptor or shared memory. Rounds go through all
signals, transports, phases and victims in turn.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections import defaultdict

from benchmarks.lab.arguments import command_line

from .rounds import (
    PHASES,
    RANKS,
    SIGNALS,
    TIMEOUT_S,
    TRANSPORTS,
    Outcome,
    cases,
    limit_s,
    run,
)


def show(outcomes: list[Outcome]) -> None:
    """Print one line per signal, transport and phase."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(outcomes)} rounds, {RANKS} ranks, deadline {TIMEOUT_S} s")
    for column in ("signal", "transport", "phase"):
        table.add_column(column)
    for column in ("rounds", "hangs", "problems", "longest time to the last error"):
        table.add_column(column, justify="right")
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.case.signal, outcome.case.transport, outcome.case.phase].append(outcome)
    for names, group in sorted(groups.items()):
        longest_s = max(outcome.detect_s for outcome in group)
        hangs = sum(outcome.hung for outcome in group)
        problems = sum(bool(outcome.problems) for outcome in group)
        table.add_row(*names, str(len(group)), str(hangs), str(problems), f"{longest_s:.3f} s")
    Console().print(table)


def main() -> None:
    """Run the rounds; exit status 1 if anything was wrong."""
    parser = command_line("failures", __doc__)
    parser.add_argument("--rounds", type=int, default=48)
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--signal", choices=SIGNALS)
    parser.add_argument("--transport", choices=TRANSPORTS)
    parser.add_argument("--phase", choices=PHASES)
    arguments = parser.parse_args()
    wanted = (
        case
        for case in cases(1_000_000)
        if arguments.signal in (None, case.signal)
        and arguments.transport in (None, case.transport)
        and arguments.phase in (None, case.phase)
    )
    outcomes = []
    for case in itertools.islice(wanted, arguments.rounds):
        outcome = run(case)
        if outcome.detect_s > limit_s(case):
            outcome.problems.append(f"late: {outcome.detect_s:.2f} s")
        outcomes.append(outcome)
        if arguments.json:
            print(json.dumps(dataclasses.asdict(outcome)), flush=True)
        elif outcome.problems:
            print(case, *outcome.problems, sep="\n  ", flush=True)
    if not arguments.json:
        show(outcomes)
    sys.exit(any(outcome.problems or outcome.hung for outcome in outcomes))


if __name__ == "__main__":
    main()
