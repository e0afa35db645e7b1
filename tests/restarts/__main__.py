"""Does training survive ranks that are killed, again and again?

    python -m tests.restarts --kills 100

4 ranks under torchrun, which starts all of them anew when one is killed; they go on from their last
checkpoint. SIGKILL hits a random rank at a random instant. In the end the weights have to be those
of a run in which nobody was killed, to the last bit, and nothing may be left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.lab.plan import end_on_sigterm

RANKS = 4
LONGEST_START_S = 90.0
WORKER = Path(__file__).with_name("worker.py")


class Job:
    """A run of torchrun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._log = (folder / "log.txt").open("w")
        command = ["--standalone", "--nproc-per-node", str(RANKS), "--max-restarts", "1000000"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *command, WORKER, folder],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            # Else the ranks' store is that of the start before, with Gloo's addresses of then.
            env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
            start_new_session=True,
        )

    def ranks(self, restart: int) -> list[int]:
        """The processes of its ranks after so many restarts, once all of them train."""
        until_s = time.monotonic() + LONGEST_START_S
        files = [self.folder / f"{restart}-{rank}" for rank in range(RANKS)]
        while not all(file.exists() and file.read_text() for file in files):
            if time.monotonic() > until_s or self.process.poll() is not None:
                raise TimeoutError(f"restart {restart}: no training after {LONGEST_START_S} s")
            time.sleep(0.02)
        return [int(file.read_text()) for file in files]

    def iteration(self) -> int:
        """Of its last checkpoint; 0: none."""
        import torch

        file = self.folder / "checkpoint.pt"
        return int(torch.load(file)["iteration"]) if file.exists() else 0

    def finish(self, last: int) -> str:
        """Let it train to that iteration; the fingerprint of its weights."""
        (self.folder / "new").write_text(str(last))
        (self.folder / "new").rename(self.folder / "last")
        self.process.wait(LONGEST_START_S + last)
        return (self.folder / "fingerprint").read_text()

    def end(self) -> None:
        """Whatever is left of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def main() -> None:
    """Kill ranks; exit status 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.restarts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of who and when (%(default)s)")
    options = parser.parse_args()
    end_on_sigterm()
    drawn = random.Random(options.seed)
    memory = set(os.listdir("/dev/shm"))
    folder = Path(tempfile.mkdtemp(prefix="patallreduce-restarts-"))
    killed, undisturbed = Job(folder / "killed"), None
    took_s = []
    try:
        for kill in range(options.kills):
            ranks = killed.ranks(kill)
            time.sleep(drawn.uniform(0, 0.5))
            at_s = time.monotonic()
            os.kill(drawn.choice(ranks), signal.SIGKILL)
            killed.ranks(kill + 1)
            took_s.append(time.monotonic() - at_s)
        last = killed.iteration() + 20
        found = killed.finish(last)
        undisturbed = Job(folder / "undisturbed")
        expected = undisturbed.finish(last)
    finally:
        for job in (killed, undisturbed):
            if job is not None:
                job.end()
    left = sorted(set(os.listdir("/dev/shm")) - memory)
    print(
        f"{len(took_s)} kills, {last} iterations; training again after "
        f"{statistics.median(took_s):.1f} s (median), {max(took_s):.1f} s (longest)"
    )
    print(f"weights: {'the same bits' if found == expected else f'{found}, not {expected}'}")
    print(f"left in /dev/shm: {', '.join(left) or 'nothing'}")
    if found == expected and not left:
        shutil.rmtree(folder)
    else:
        sys.exit(f"see {folder}")


if __name__ == "__main__":
    main()
