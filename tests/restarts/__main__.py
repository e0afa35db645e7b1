"""Does training survive ranks that are killed, again and again?

    python -m tests.restarts --kills 100 --agents 2

4 ranks under torchrun, which starts all of them anew when one is killed; they go on from their last
checkpoint. SIGKILL hits random ranks at random instants: while they train, while the others deal
with a kill, while they start. In the end the weights have to be those of a run in which nobody was
killed, to the last bit, and nothing may be left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from benchmarks.lab.namespaces import enter_user_namespace
from benchmarks.lab.plan import end_on_sigterm

from .job import RANKS, Job

AGAIN_WITHIN_S = {"meanwhile": 0.2, "starting": 4.0}  # kills after the first one
AGAIN = {"meanwhile": 0.5, "starting": 0.25}  # how probable


class Killer:
    """Kills random ranks of a job at random instants."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.restarts_s: list[float] = []

    def disturb(self, job: Job) -> None:
        """Let it train for a moment, kill, and wait until all train again."""
        before = set(job.living())
        time.sleep(self._random.uniform(0, 0.5))
        self._kill(job, "training")
        for moment, probability in AGAIN.items():
            if self._random.random() < probability:
                time.sleep(self._random.uniform(0, AGAIN_WITHIN_S[moment]))
                before |= set(job.living())
                self._kill(job, moment)
        at_s = time.monotonic()
        job.training(before)
        self.restarts_s.append(time.monotonic() - at_s)

    def _kill(self, job: Job, moment: str) -> None:
        if living := job.living():
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(living), signal.SIGKILL)
                self.kills[moment] += 1


def main() -> None:
    """Kill ranks; exit status 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.restarts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--agents", type=int, default=1, choices=[1, 2], help="hosts (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of who and when (%(default)s)")
    options = parser.parse_args()
    if options.agents > 1:
        enter_user_namespace()
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="patallreduce-restarts-"))
    try:
        right = survives(folder, options)
    except (KeyboardInterrupt, SystemExit):  # told to end: nothing to look at
        shutil.rmtree(folder)
        raise
    if not right:
        sys.exit(f"see {folder}")
    shutil.rmtree(folder)


def survives(folder: Path, options: argparse.Namespace) -> bool:
    """Kill ranks of a job and compare it with one left alone; whether all was as it should be."""
    memory = set(os.listdir("/dev/shm"))
    killer = Killer(options.seed)
    disturbed, undisturbed = Job(folder / "disturbed", options.agents), None
    try:
        disturbed.training(set())
        while killer.kills.total() < options.kills:
            killer.disturb(disturbed)
        last = disturbed.iteration() + 20
        found = disturbed.finish(last)
        undisturbed = Job(folder / "undisturbed", options.agents)
        expected = undisturbed.finish(last)
    finally:
        print(f"{dict(killer.kills)} kills, {len(killer.restarts_s)} restarts", flush=True)
        for job in (disturbed, undisturbed):
            if job is not None:
                job.end()
    left = sorted(set(os.listdir("/dev/shm")) - memory)
    print(
        f"{RANKS} ranks, {last} iterations; training again after "
        f"{statistics.median(killer.restarts_s):.1f} s (median), "
        f"{max(killer.restarts_s):.1f} s (longest)"
    )
    print(f"weights: {'the same bits' if found == expected else f'{found}, not {expected}'}")
    print(f"left in /dev/shm: {', '.join(left) or 'nothing'}")
    return found == expected and not left


if __name__ == "__main__":
    main()
