"""Ranks as threads of the test's process, over loopback.

A thread that hangs cannot be killed: it fails its test with its stack and is left behind.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from patallreduce import Communicator
from tests.processes import LIMIT_S, RankFailure

USUAL_S = 0.5 * LIMIT_S  # closing the other ranks at the end of the test may take as long again


class RankHungError(Exception):
    """The thread of a rank did not end; it is still there."""


def each_rank(ranks: int, function: Callable[[int], Any], limit_s: float = USUAL_S) -> list[Any]:
    """Call `function(rank)` on a thread per rank; results in rank order.

    Raises:
        RankHungError: Some rank has not ended after `limit_s`; with its stack.
        What the lowest failing rank raised, once all have ended.
    """
    outcomes = _outcomes(ranks, function, limit_s)
    for outcome in outcomes:
        if isinstance(outcome, RankFailure):
            raise outcome.error
    return outcomes


def on_threads(
    communicators: Sequence[Communicator], function: Callable[..., Any], *args: Any
) -> list[Any]:
    """Call `function(communicator, *args)` on a thread per rank, as `each_rank`."""
    return each_rank(len(communicators), lambda rank: function(communicators[rank], *args))


def errors_on_threads(
    communicators: Sequence[Communicator], function: Callable[..., Any], *args: Any
) -> list[BaseException | None]:
    """As `on_threads`, but what each rank raised, or None."""
    outcomes = _outcomes(len(communicators), lambda i: function(communicators[i], *args), USUAL_S)
    return [outcome.error if isinstance(outcome, RankFailure) else None for outcome in outcomes]


def _outcomes(ranks: int, function: Callable[[int], Any], limit_s: float) -> list[Any]:
    """As of `RankProcesses.outcomes`."""
    outcomes: list[Any] = [None] * ranks

    def call(rank: int) -> None:
        try:
            outcomes[rank] = function(rank)
        except BaseException as error:
            outcomes[rank] = RankFailure(error)

    # Daemons: the interpreter ends without waiting for those that hang.
    threads = [
        threading.Thread(target=call, args=(rank,), daemon=True, name=f"rank {rank}")
        for rank in range(ranks)
    ]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(until_s - time.monotonic(), 0))
    if hung := [thread for thread in threads if thread.is_alive()]:
        failed = [outcome.error for outcome in outcomes if isinstance(outcome, RankFailure)]
        raise RankHungError("\n".join(map(_where, hung))) from next(iter(failed), None)
    return outcomes


def _where(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return f"{thread.name} hangs\n" + "".join(traceback.format_stack(frame) if frame else [])
