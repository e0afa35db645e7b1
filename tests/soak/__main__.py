"""Does everything go on being right, and in the same memory, for as long as one likes?

    python -m tests.soak --seconds 3600 --ranks 8

Ranks, processes over UCX, call random collectives with random arguments, alone and many at once,
on several communicators that are closed and made anew, and train now and then; they come late at
random, and are stopped for a moment. Every result is compared, to the bit. Ends at the first wrong
one, error or hang, with its step: `--seed S --from-step N` begins there again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from benchmarks.lab.plan import end_on_sigterm

from .run import Outcome, Soak

# What a rank holds at the start and at the end, and how much more that may be in the end: caches
# fill. Resident memory also counts what is free in the heap, and grows with its holes.
HELD = {"descriptors": 0, "threads": 0, "MiB in use": 32}
OTHERS_S = 2.0  # in which what other programs hold in /dev/shm is another file


def show(outcome: Outcome) -> None:
    """What was done, and a line for each rank."""
    from rich.console import Console
    from rich.table import Table
    from scipy.stats import theilslopes

    counts: Counter[str] = Counter()
    for told in outcome.told:
        counts.update(told.get("counts", {}))
    by_collective: dict[str, Counter[str]] = {}
    for kind, count in sorted(counts.items()):
        collective, _, algorithm = kind.partition(" ")
        by_collective.setdefault(collective, Counter())[algorithm] += count
    print(f"{outcome.steps} steps, {outcome.stops} stops of a rank")
    for collective, algorithms in by_collective.items():
        parts = ", ".join(f"{name} {count}" for name, count in algorithms.items() if name)
        print(f"{collective}: {algorithms.total()}{parts and f' ({parts})'}")
    table = Table(
        title="resident memory, MiB; what is held at the start and at the end, when nothing is open"
    )
    table.add_column("rank")
    for column in ("first quarter", "last quarter", "highest", "MiB/h", *HELD):
        table.add_column(column, justify="right")
    for rank, (told, samples) in enumerate(zip(outcome.told, outcome.samples, strict=True)):
        if not samples:
            continue
        hours, mib = zip(*samples[len(samples) // 2 :], strict=True)
        slope = theilslopes(mib, hours).slope if len(mib) > 2 else float("nan")
        held = [
            f"{told.get('start', {}).get(what, '')}, {told.get('end', {}).get(what, '')}"
            for what in HELD
        ]
        levels = [f"{outcome.level(rank, quarter):.1f}" for quarter in (0, 3)]
        highest = max(mib for _, mib in samples)
        table.add_row(str(rank), *levels, f"{highest:.1f}", f"{slope:+.1f}", *held)
    Console(width=100).print(table)


def problems(outcome: Outcome) -> list[str]:
    """What the ranks met, and what they hold that they should not."""
    found = list(outcome.problems)
    for rank, told in enumerate(outcome.told):
        if outcome.level(rank, 3) > 2 * outcome.level(rank, 0):
            found.append(f"rank {rank}: its memory has more than doubled")
        for what, held in told.get("end", {}).items():
            if held > told["start"][what] + HELD[what]:
                found.append(f"rank {rank}: {held} {what}, at the start {told['start'][what]}")
    return found


def main() -> None:
    """Soak; exit status 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=3600, help="(%(default)s)")
    parser.add_argument("--ranks", type=int, default=8, choices=range(2, 16), help="(%(default)s)")
    parser.add_argument("--transport", default="shm", choices=["shm", "tcp"], help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--from-step", type=int, default=0, help="(%(default)s)")
    options = parser.parse_args()
    end_on_sigterm()
    memory = set(os.listdir("/dev/shm"))
    soak = Soak(options.ranks, options.seconds, options.transport, options.seed, options.from_step)
    outcome = soak.run()
    show(outcome)
    found = problems(outcome)
    wrong = sum(told.get("wrong", False) for told in outcome.told)
    errors = sum("error" in told for told in outcome.told) - wrong
    print(f"{wrong} wrong results, {errors} errors")
    left = set(os.listdir("/dev/shm")) - memory
    if left:  # perhaps another program's, just now
        time.sleep(OTHERS_S)
        left &= set(os.listdir("/dev/shm"))
    print(f"left in /dev/shm: {', '.join(sorted(left)) or 'nothing'}")
    for problem in found:
        print(f"seed {options.seed}: {problem}", flush=True)
    sys.exit(bool(found or left))


if __name__ == "__main__":
    main()
