"""Ranks for tests, as processes with a gloo group between them; as threads: threads.py.

Importing torch takes seconds, so one pool of worker processes serves a whole test session. They
are forked from a server that has imported it already, which makes a worker that died or hung cheap
to replace. Every run gives its ranks a process group of their own, so no test sees another's.

A rank that hangs is killed, and fails its test with its stack.
"""

from __future__ import annotations

import ctypes
import datetime
import faulthandler
import itertools
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.lab import Network
from benchmarks.lab.launch import RankProgram
from patallreduce import Link

# Of a whole test; where pytest-timeout looks for it, too. On a slow machine: PYTEST_TIMEOUT=200.
LIMIT_S = float(os.environ.setdefault("PYTEST_TIMEOUT", "50"))
USUAL_S = 0.8 * LIMIT_S  # so that ranks are named before the test is ended

LINK = Link(20e-6, 2e9)  # given, so that no test spends its time on measuring it
_GLOO_TIMEOUT_S = 30.0
_END_S = 5.0  # for processes to end by themselves
_STACK_S = 2.0  # to write it; a stopped process does not
_PR_SET_PDEATHSIG = 1

Places = Sequence[RankProgram]  # whose commands do not matter


class RankDiedError(Exception):
    """The process of a rank ended, or was killed for hanging, before it gave a result."""


@dataclass(frozen=True)
class RankFailure:
    """How a rank ended instead of returning."""

    error: BaseException


def start_server() -> None:
    """Start the server that workers are forked from; it imports torch meanwhile.

    What DDP imports when the first model is made would take each of them seconds, and so would
    looking through all that for garbage.
    """
    modules = ["pytest", "torch._dynamo", "patallreduce", "tests.frozen"]
    forkserver.set_forkserver_preload(modules)
    forkserver.ensure_running()


class RankProcesses:
    """A growing pool of worker processes, each a rank of one run at a time.

    With places, by rank, they live there.
    """

    def __init__(self, places: Places = ()) -> None:
        self._places = places
        self._context = multiprocessing.get_context("forkserver")
        self._workers: list[tuple[Any, Connection]] = []
        self._stores = tempfile.TemporaryDirectory(prefix="patallreduce-test-")
        self._runs = itertools.count()

    def run(
        self, ranks: int, function: Callable[..., Any], *args: Any, timeout_s: float = USUAL_S
    ) -> list[Any]:
        """Call `function(*args)` on every rank; what each returned, in rank order.

        Args:
            ranks: Size of the default process group during the call.
            function: At the top level of a module, for pickling.
            args: Picklable; the same for every rank.
            timeout_s: After it, ranks without a result are killed.

        Raises:
            What the lowest failing rank raised, with all ranks' tracebacks as notes.
        """
        outcomes = self.outcomes(ranks, function, *args, timeout_s=timeout_s)
        errors = [outcome.error for outcome in outcomes if isinstance(outcome, RankFailure)]
        for other in errors[1:]:  # one of these may be the cause of the first
            errors[0].add_note("\n".join([str(other), *getattr(other, "__notes__", [])]))
        if errors:
            raise errors[0]
        return outcomes

    def outcomes(
        self, ranks: int, function: Callable[..., Any], *args: Any, timeout_s: float = USUAL_S
    ) -> list[Any]:
        """As `run`, but a `RankFailure` stands in the place of a rank that raised or died."""
        while len(self._workers) < ranks:
            self._workers.append(self._start(len(self._workers)))
        store = str(Path(self._stores.name) / str(next(self._runs)))
        deadline_s = time.monotonic() + timeout_s
        for rank in range(ranks):
            job = pickle.dumps((rank, ranks, store, pickle.dumps((function, args))))
            self._workers[rank][1].send_bytes(job)
        outcomes: list[Any] = [None] * ranks
        waiting = {self._workers[rank][1]: rank for rank in range(ranks)}
        try:
            while waiting:
                ready = wait(list(waiting), max(deadline_s - time.monotonic(), 0))
                for connection in ready or list(waiting):
                    rank = waiting.pop(connection)  # type: ignore[index]
                    outcomes[rank] = self._outcome(rank, finished=bool(ready))
        except BaseException as error:  # the test's own limit, or Ctrl-C
            for rank in waiting.values():
                error.add_note(str(self._outcome(rank, finished=False).error))
            raise
        return outcomes

    @classmethod
    def once(
        cls, ranks: int, function: Callable[..., Any], *args: Any, places: Places = ()
    ) -> list[Any]:
        """As `run`, in new processes that end with it."""
        pool = cls(places)
        try:
            return pool.run(ranks, function, *args)
        finally:
            pool.close()

    @classmethod
    def on(cls, network: Network, function: Callable[..., Any], *args: Any) -> list[Any]:
        """As `run`, on every rank of that network."""
        return cls.once(network.ranks, function, *args, places=network.programs([]))

    def close(self) -> None:
        """End every worker: idle ones by themselves, others by force."""
        for _, connection in self._workers:
            connection.close()
        until_s = time.monotonic() + _END_S
        for process, _ in self._workers:
            process.join(max(until_s - time.monotonic(), 0))
            _kill(process)
        self._workers.clear()
        self._stores.cleanup()

    def _start(self, rank: int) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        place = (self._places[rank], os.getpid()) if self._places else None
        process = self._context.Process(
            target=_serve, args=(theirs, self._stores.name, place), daemon=True
        )
        process.start()
        theirs.close()
        return process, ours

    def _outcome(self, rank: int, finished: bool) -> Any:
        process, connection = self._workers[rank]
        try:
            if finished:
                return pickle.loads(connection.recv_bytes())
            reason = f"gave no result in time\n{self._stack(process)}"
        except EOFError:
            process.join(_END_S)
            reason = f"ended with exit code {process.exitcode}"
        _kill(process)
        connection.close()
        self._workers[rank] = self._start(rank)
        return RankFailure(RankDiedError(f"rank {rank} {reason}"))

    def _stack(self, process: Any) -> str:
        """Where each thread of a worker is, the last call first."""
        file = _stack_file(self._stores.name, process.pid)
        os.kill(process.pid, signal.SIGUSR1)
        until_s = time.monotonic() + _STACK_S
        seen = ""
        while not seen or seen != file.read_text():  # still written
            if time.monotonic() > until_s:
                return "(no stack: the process is stopped)"
            seen = file.read_text()
            time.sleep(0.05)
        return seen


def _move(place: RankProgram, holder: int) -> None:
    """Go on there; of the namespace that process has a descriptor."""
    namespace = os.open(f"/proc/{holder}/fd/{place.namespace}", os.O_RDONLY)
    replace(place, namespace=namespace).enter()
    os.close(namespace)
    os.environ.update(place.environment)


def _stack_file(folder: str, pid: int) -> Path:
    return Path(folder) / f"stack-{pid}"


def _kill(process: Any) -> None:
    process.kill()  # also a stopped process; no effect on a dead one
    process.join()
    process.close()


def _serve(connection: Connection, folder: str, place: tuple[RankProgram, int] | None) -> None:
    # With the server it was forked from, which ends with the tests however they end.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if place:
        _move(*place)
    faulthandler.enable()
    with open(_stack_file(folder, os.getpid()), "w") as stack:
        faulthandler.register(signal.SIGUSR1, stack)
        torch.set_num_threads(1)  # there are more ranks than cores
        while True:
            try:
                rank, ranks, store, call = pickle.loads(connection.recv_bytes())
            except EOFError:
                return
            connection.send_bytes(_run(rank, ranks, store, call))


def _join(rank: int, ranks: int, store: str) -> None:
    """Join the run's default group.

    An error ends the worker: c10d counts groups that failed, too, and would look for those of later
    runs under another name than the other ranks.
    """
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(store, ranks),  # type: ignore[attr-defined]
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=_GLOO_TIMEOUT_S),
    )
    dist.barrier()  # a rank that is done at once would leave while others still connect to it


def _run(rank: int, ranks: int, store: str, call: bytes) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _join(rank, ranks, store)
        try:
            function, args = pickle.loads(call)
            return pickle.dumps(function(*args))
        except BaseException as error:
            error.add_note(f"on rank {rank}:\n{traceback.format_exc()}")
            return _pickled(error)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


def _pickled(error: BaseException) -> bytes:
    try:
        pickle.loads(pickled := pickle.dumps(RankFailure(error)))
    except Exception:
        stand_in = RuntimeError(f"{type(error).__name__}: {error}")
        stand_in.__notes__ = error.__notes__
        return pickle.dumps(RankFailure(stand_in))
    return pickled
