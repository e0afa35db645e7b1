"""Starts the ranks of a soak, stops them now and then, watches their steps and their memory."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import socket
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which making a DDP model imports, in every rank otherwise
import torch.distributed as dist

from benchmarks.lab.namespaces import die_with_parent
from patallreduce.ending import end_rank
from tests.matrix.hosts import OVER_TCP

from .ranks import NOT_BEGUN, Rank
from .steps import Script

STEP_LIMIT_S = 60.0
STOP_S, BETWEEN_STOPS_S = 0.5, 3.0  # at most; far below the ranks' deadline
ENDING_S = 5.0  # for the others, once one rank has failed
_STACKS_S = 1.0  # to write them
_FORK = multiprocessing.get_context("fork")
_MIB = 1 << 20
# What is freed goes back to the system: else a heap's holes grow for hours. And so does what the
# communicators keep for their next calls, of which there may be this much.
_M_MMAP_THRESHOLD, _MMAP_BYTES = -3, 1 << 16  # malloc.h
_KEPT_BYTES = 16 * _MIB


@dataclass
class Outcome:
    """What came of a soak.

    Args:
        told: [rank] -> what it wrote in the end; empty if nothing.
        samples: [rank] -> (hours since all had warmed up, resident MiB).
        steps: To which number the slowest rank came.
        stops: How often a rank was stopped.
        problems: Empty: none.
    """

    told: list[dict[str, Any]]
    samples: list[list[tuple[float, float]]]
    steps: int = 0
    stops: int = 0
    problems: list[str] = field(default_factory=list)

    def level(self, rank: int, quarter: int) -> float:
        """Median of resident MiB in a quarter of the run, from 0 on; NaN: no sample."""
        samples = self.samples[rank]
        part = samples[len(samples) * quarter // 4 : len(samples) * (quarter + 1) // 4]
        return statistics.median(mib for _, mib in part) if part else float("nan")


class Soak:
    """All ranks of a soak, forks of this process.

    Args:
        ranks: P.
        seconds: How long.
        transport: "shm" or "tcp".
        seed: Of everything but the stops' effects.
        first: The step to begin with.
    """

    def __init__(self, ranks: int, seconds: float, transport: str, seed: int, first: int) -> None:
        self._seconds = seconds
        self._random = random.Random(seed)
        # No TemporaryDirectory: a rank's ending, in a fork of this process, would remove it.
        self._folder = Path(tempfile.mkdtemp(prefix="patallreduce-soak-"))
        self._reached = RawArray("q", [NOT_BEGUN] * ranks)
        script = Script(seed, ranks)
        for _ in range(first):
            script.next()
        self._outcome = Outcome([{}] * ranks, [[] for _ in range(ranks)])
        parent, environment = os.getpid(), OVER_TCP if transport == "tcp" else {}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            self._ranks = []
            for number in range(ranks):
                rank = Rank(number, script, seed, seconds, self._reached)
                arguments = (rank, port, self._folder, environment, parent)
                self._ranks.append(_FORK.Process(target=_be, args=arguments))
                self._ranks[-1].start()
            # Not a rank's, whose memory is looked at.
            self._store = dist.TCPStore(
                *("127.0.0.1", port),
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=listener.detach(),
            )

    def run(self) -> Outcome:
        """Watch until all ranks have ended, or one has failed."""
        try:
            self._watch()
            self._read()
        finally:
            for rank in self._ranks:
                rank.kill()
                rank.join()
            if not self._outcome.problems:
                shutil.rmtree(self._folder)
        return self._outcome

    def _watch(self) -> None:
        sample_s = min(2.0, self._seconds / 50)
        began_s = sample_at_s = stop_at_s = 0.0
        before, moved_s = list(self._reached), time.monotonic()
        while any(rank.is_alive() for rank in self._ranks) and not self._failed():
            time.sleep(0.02)
            now_s, reached = time.monotonic(), list(self._reached)
            if reached != before:
                before, moved_s = reached, now_s
                self._outcome.steps = max(min(reached) + 1, 0)
            elif now_s > moved_s + STEP_LIMIT_S:
                self._outcome.problems.append(f"steps {reached}: hang\n{self._stacks()}")
                return
            if min(reached) < 0:
                continue
            began_s = began_s or now_s
            if now_s > sample_at_s:
                sample_at_s = now_s + sample_s
                self._sample((now_s - began_s) / 3600)
            if now_s > stop_at_s:
                self._stop()
                stop_at_s = time.monotonic() + self._random.uniform(0, BETWEEN_STOPS_S)

    def _failed(self) -> bool:
        """Whether a rank has; then the others have had time to tell what they met."""
        if all(rank.exitcode in (None, 0) for rank in self._ranks):
            return False
        until_s = time.monotonic() + ENDING_S
        for rank in self._ranks:
            rank.join(max(until_s - time.monotonic(), 0))
        return True

    def _sample(self, hours: float) -> None:
        for rank, process in enumerate(self._ranks):
            with contextlib.suppress(OSError):
                pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
                mib = pages * resource.getpagesize() / _MIB
                self._outcome.samples[rank].append((hours, mib))

    def _stop(self) -> None:
        pid = self._random.choice(self._ranks).pid
        assert pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self._random.uniform(0, STOP_S))
            os.kill(pid, signal.SIGCONT)
            self._outcome.stops += 1

    def _stacks(self) -> str:
        for rank in self._ranks:
            os.kill(rank.pid or 0, signal.SIGUSR1)
        time.sleep(_STACKS_S)
        return "\n".join(f"rank {rank}: {self._said(rank)}" for rank in range(len(self._ranks)))

    def _said(self, rank: int) -> str:
        return (self._folder / f"{rank}.txt").read_text(errors="replace")[-4000:]

    def _read(self) -> None:
        for rank, process in enumerate(self._ranks):
            file = self._folder / f"{rank}.json"
            if file.exists():
                self._outcome.told[rank] = json.loads(file.read_text())
            elif process.exitcode is not None:
                self._outcome.problems.append(
                    f"rank {rank} exits with {process.exitcode} in step {self._reached[rank]}; "
                    f"it said: {self._said(rank)}"
                )
        failed = [told for told in self._outcome.told if "error" in told]
        for told in sorted(failed, key=lambda told: float(told["at_s"]))[:1]:
            others = [one["error"].splitlines()[-1] for one in failed if one is not told]
            text = "\n".join([told["step"], told["error"], *others, f"see {self._folder}"])
            self._outcome.problems.append(text)


def _be(rank: Rank, port: int, folder: Path, environment: dict[str, str], parent: int) -> None:
    die_with_parent(parent)
    said = os.open(folder / f"{rank.rank}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    warnings.simplefilter("error")
    os.environ.update(environment, PATALLREDUCE_SCRATCH_BYTES=str(_KEPT_BYTES))
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    if not rank.run(store, folder):
        os._exit(1)
    end_rank()
