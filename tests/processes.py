"""Ranks for tests: as processes with a gloo group between them, and as threads over loopback.

Importing torch takes seconds, so one pool of worker processes serves a whole test session. They
are forked from a server that has imported it already, which makes a worker that died or hung cheap
to replace. Every run gives its ranks a process group of their own, so no test sees another's.
"""

from __future__ import annotations

import datetime
import faulthandler
import itertools
import multiprocessing
import pickle
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from patallreduce import Communicator

_GLOO_TIMEOUT_S = 30.0


class RankDiedError(Exception):
    """The process of a rank ended, or was killed for hanging, before it gave a result."""


@dataclass(frozen=True)
class RankFailure:
    """How a rank ended instead of returning."""

    error: BaseException


class RankProcesses:
    """A growing pool of worker processes, each a rank of one run at a time."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["pytest", "torch.distributed", "patallreduce"])
        self._workers: list[tuple[Any, Connection]] = []
        self._stores = tempfile.TemporaryDirectory(prefix="patallreduce-test-")
        self._runs = itertools.count()

    def run(
        self, ranks: int, function: Callable[..., Any], *args: Any, timeout_s: float = 60.0
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
        self, ranks: int, function: Callable[..., Any], *args: Any, timeout_s: float = 60.0
    ) -> list[Any]:
        """As `run`, but a `RankFailure` stands in the place of a rank that raised or died."""
        while len(self._workers) < ranks:
            self._workers.append(self._start())
        store = str(Path(self._stores.name) / str(next(self._runs)))
        deadline_s = time.monotonic() + timeout_s
        for rank in range(ranks):
            job = pickle.dumps((rank, ranks, store, timeout_s, pickle.dumps((function, args))))
            self._workers[rank][1].send_bytes(job)
        outcomes: list[Any] = [None] * ranks
        waiting = {self._workers[rank][1]: rank for rank in range(ranks)}
        while waiting:
            ready = wait(list(waiting), max(deadline_s - time.monotonic(), 0))
            for connection in ready or list(waiting):
                rank = waiting.pop(connection)  # type: ignore[index]
                outcomes[rank] = self._outcome(rank, finished=bool(ready))
        return outcomes

    def close(self) -> None:
        """End every worker: idle ones by themselves, others by force."""
        for _, connection in self._workers:
            connection.close()
        for process, _ in self._workers:
            process.join(5)
            _kill(process)
        self._workers.clear()
        self._stores.cleanup()

    def _start(self) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def _outcome(self, rank: int, finished: bool) -> Any:
        process, connection = self._workers[rank]
        try:
            if finished:
                return pickle.loads(connection.recv_bytes())
            reason = "gave no result in time"
        except EOFError:
            process.join(5)
            reason = f"ended with exit code {process.exitcode}"
        _kill(process)
        connection.close()
        self._workers[rank] = self._start()
        return RankFailure(RankDiedError(f"rank {rank} {reason}"))


def _kill(process: Any) -> None:
    process.kill()  # also a stopped process; no effect on a dead one
    process.join()
    process.close()


def _serve(connection: Connection) -> None:
    faulthandler.enable()
    torch.set_num_threads(1)  # there are more ranks than cores
    while True:
        try:
            rank, ranks, store, timeout_s, call = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        faulthandler.dump_traceback_later(timeout_s - 1)  # shows where a hanging rank hangs
        outcome = _run(rank, ranks, store, call)
        faulthandler.cancel_dump_traceback_later()
        connection.send_bytes(outcome)


def _run(rank: int, ranks: int, store: str, call: bytes) -> bytes:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function, args = pickle.loads(call)
            dist.init_process_group(
                "gloo",
                store=dist.FileStore(store, ranks),  # type: ignore[attr-defined]
                rank=rank,
                world_size=ranks,
                timeout=datetime.timedelta(seconds=_GLOO_TIMEOUT_S),
            )
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


def on_threads(
    communicators: Sequence[Communicator], function: Callable[..., Any], *args: Any
) -> list[Any]:
    """Call `function(communicator, *args)` on a thread per rank; results, in rank order."""
    with ThreadPoolExecutor(len(communicators)) as threads:
        calls = [threads.submit(function, c, *args) for c in communicators]
        return [call.result(timeout=60) for call in calls]


def errors_on_threads(
    communicators: Sequence[Communicator], function: Callable[..., Any], *args: Any
) -> list[BaseException | None]:
    """As `on_threads`, but what each rank raised, or None."""
    with ThreadPoolExecutor(len(communicators)) as threads:
        calls = [threads.submit(function, c, *args) for c in communicators]
        return [call.exception(timeout=60) for call in calls]
