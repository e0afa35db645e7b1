"""Runs cells, their ranks forks of a process that has imported torch; judges what they met."""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which making a DDP model imports, in every rank otherwise

from benchmarks.lab.network import Network
from patallreduce.ending import end_rank

from . import hosts
from .cells import LIMIT_S, RANKS, Cell, promise
from .ranks import Rank

_FORK = multiprocessing.get_context("fork")
_EXITS = {"kill": -signal.SIGKILL, "kill_with_child": -signal.SIGKILL, "exit": 3}


@dataclass
class Outcome:
    """What came of a cell.

    Args:
        cell: The cell.
        noticed_s: From the fault, or the call in which it was met, to the last survivor's error;
            0 without an error.
        problems: What differs from the promise; empty: nothing.
    """

    cell: Cell
    noticed_s: float = 0.0
    problems: list[str] = field(default_factory=list)


class _Running:
    """A cell whose ranks run."""

    def __init__(self, cell: Cell, folder: str) -> None:
        self.cell = cell
        self._path = Path(tempfile.mkdtemp(dir=folder))
        self._until_s = time.monotonic() + LIMIT_S
        self._network = hosts.network(cell)
        self._ranks = [
            _FORK.Process(target=_be, args=(cell, rank, self._path, self._network))
            for rank in range(RANKS)
        ]
        for rank in self._ranks:
            rank.start()

    def over(self) -> bool:
        """Whether all ranks have ended, or are out of time."""
        statuses = [rank.exitcode for rank in self._ranks]
        return None not in statuses or time.monotonic() > self._until_s

    def outcome(self) -> Outcome:
        """Judge what the ranks met, and end what is left of them."""
        outcome = Outcome(self.cell)
        met = [self._met(rank, outcome) for rank in range(RANKS)]
        for rank in self._ranks:
            with suppress(ProcessLookupError):
                os.killpg(rank.pid or 0, signal.SIGKILL)  # children of its own, too
            rank.join()
        if self._network:
            self._network.close()
        self._judge(met, outcome)
        return outcome

    def _met(self, rank: int, outcome: Outcome) -> dict[str, Any] | None:
        """What it wrote; None of one that is gone as its fault has it."""
        status = self._ranks[rank].exitcode
        wanted = _EXITS.get(self.cell.fault, 0) if rank == self.cell.victim else 0
        if status != wanted:
            said = (self._path / f"{rank}.txt").read_text(errors="replace")[-2000:]
            what = "hangs" if status is None else f"exits with {status}, not {wanted}"
            outcome.problems.append(f"rank {rank} {what}; it said: {said}")
        file = self._path / f"{rank}.json"
        return json.loads(file.read_text()) if file.exists() else None

    def _judge(self, met: list[dict[str, Any] | None], outcome: Outcome) -> None:
        cell, promised = self.cell, promise(self.cell)
        fault = self._path / "fault"
        fault_s = float(fault.read_text()) if fault.exists() else 0.0
        if not fault_s and cell.fault != "none":
            outcome.problems.append("the fault never happened")
        texts = set()
        for rank, one in enumerate(met):
            if one is None:
                if rank != cell.victim:
                    outcome.problems.append(f"rank {rank} told nothing")
                continue
            raised = one["raised"]
            wanted = promised.victim if rank == cell.victim else promised.errors
            if raised not in wanted:
                outcome.problems.append(
                    f"rank {rank}: expected {' or '.join(map(repr, wanted))}, "
                    f"got {raised!r}: {one.get('text')}"
                )
            if rank == cell.victim or not raised:
                continue
            texts.add(one["text"])
            if promised.names_victim and one["named"] != cell.victim:
                outcome.problems.append(f"rank {rank}: it names rank {one['named']}: {one['text']}")
            since_s = one["at_s"] - max(fault_s, one["began_s"])
            outcome.noticed_s = max(outcome.noticed_s, since_s)
        if len(texts) > 1 and promised.alike:
            outcome.problems.append(f"the errors differ: {sorted(texts)}")
        if outcome.noticed_s > promised.within_s:
            outcome.problems.append(
                f"noticed after {outcome.noticed_s:.2f} s, promised {promised.within_s} s"
            )


def _be(cell: Cell, rank: int, folder: Path, network: Network | None) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    said = os.open(folder / f"{rank}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.dump_traceback_later(LIMIT_S - 1, file=2)  # of one that hangs
    hosts.enter(cell, rank, network)
    torch.set_num_threads(1)
    Rank(cell, rank, folder, network).run()
    end_rank()


def outcomes(cells: Iterable[Cell], at_once: int) -> Iterator[Outcome]:
    """Run them, so many at the same time; each outcome as soon as it is there."""
    waiting = iter(cells)
    running: list[_Running] = []
    # No TemporaryDirectory: a rank's ending, in a fork of this process, would remove it.
    folder = tempfile.mkdtemp(prefix="patallreduce-matrix-")
    gc.freeze()  # looking through all that is imported would take a rank longer than its run
    try:
        while True:
            while len(running) < at_once and (cell := next(waiting, None)) is not None:
                running.append(_Running(cell, folder))
            if not running:
                return
            for one in [one for one in running if one.over()]:
                running.remove(one)
                yield one.outcome()
            time.sleep(0.01)
    finally:
        shutil.rmtree(folder)
