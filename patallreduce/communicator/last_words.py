"""A rank's record of a failure, written at once: what ends a process next may leave no time.

With `PATALLREDUCE_POSTMORTEM=folder` a thread of each communicator looks whether it has failed, and
then writes what `python -m patallreduce postmortem folder` reads.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from pathlib import Path

from patallreduce import _core
from patallreduce.communicator import environment
from patallreduce.communicator.tickets import Ticket
from patallreduce.records import postmortem

_log = logging.getLogger("patallreduce")

_LOOK_S = 0.05
_CALLS = 64  # the last ones are written


class LastWords:
    """What one rank writes when its communicator fails.

    Args:
        engine: Of the communicator.
        rank: This one.
        ranks: Of the communicator.
        name: Of the communicator, the same on all ranks.
        records: Its last calls, oldest first.
    """

    def __init__(
        self,
        engine: _core.Engine,
        rank: int,
        ranks: int,
        name: str,
        records: deque[tuple[Ticket, _core.Call]],
    ) -> None:
        self._engine = engine
        self._identity = {"communicator": name, "rank": rank, "ranks": ranks}
        self._records = records
        self._folder = environment.get("POSTMORTEM")
        self._lock = threading.Lock()
        self._over = self._folder is None

    def start(self) -> None:
        """Look for a failure from here on, if the environment says where to write."""
        if not self._over:
            threading.Thread(target=self._look, name="patallreduce-postmortem", daemon=True).start()

    def say(self, *, over: bool) -> None:
        """Write, if it has failed and nothing was written yet; `over`: never again."""
        with self._lock:
            if self._over:
                return
            self._over = over
            snapshot = self._engine.snapshot()
            error = self._error()  # a moment later, when the others' have been heard
            if snapshot.pop("failed") and error is not None:
                self._over = True
                assert self._folder is not None
                self._write(Path(self._folder), error, snapshot)

    def _look(self) -> None:
        while not self._over:
            time.sleep(_LOOK_S)
            self.say(over=False)

    def _error(self) -> _core.TransportError | None:
        try:
            self._engine.check()
        except _core.TransportError as error:
            return error
        return None

    def _write(
        self, folder: Path, error: _core.TransportError, snapshot: dict[str, object]
    ) -> None:
        last = [
            {
                "number": ticket.seq,
                "call": str(call),
                "schedule": ticket.key_text if ticket.done else "",
                "arrival_s": ticket.arrival_s,
                "finish_s": ticket.finish_s,
            }
            for ticket, call in list(self._records)[-_CALLS:]
        ]
        record = {
            **self._identity,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "unix_s": time.time(),
            "error": f"{type(error).__name__}: {error}",
            "completed": error.completed,
            **snapshot,
            "last": last,
        }
        try:
            postmortem.write(folder, record)
        except OSError as problem:
            _log.warning("patallreduce: cannot write the postmortem: %s", problem)
