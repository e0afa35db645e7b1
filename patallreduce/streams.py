"""Streams: series of iterations whose arrivals are reported, predicted and planned."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence

from patallreduce import _core

_log = logging.getLogger("patallreduce")

PLAIN = 0  # the stream of the collectives outside DDP; models count from 1


class Stream:
    """One series of iterations: a model's, or that of the collectives outside DDP.

    Every rank makes the same planned calls in the same order, so counting numbers the iterations
    alike. All times are seconds of `time.monotonic()`.

    Args:
        monitor: This rank's progress monitor.
        engine: The engine whose calls are planned.
        number: Names the stream: the same on every rank.
    """

    def __init__(self, monitor: _core.Monitor, engine: _core.Engine, number: int) -> None:
        self._monitor = monitor
        self._engine = engine
        self.number = number
        self.iteration = 0
        self._started = False
        self._asked = False
        self._tickets: list[_core.Ticket] = []  # of this iteration
        self._before: list[_core.Ticket] = []  # of the one before
        self._warned = False

    def start(self, at_s: float) -> None:
        """The computation of an iteration began."""
        finish_s = [t.finish_s if t.done else math.nan for t in self._before]
        self._started = True
        self._monitor.started(self.number, self.iteration, at_s, finish_s)

    def edge(self, fraction: float, at_s: float) -> None:
        """`fraction` of the iteration's computation is done."""
        self._start_if_needed()
        self._monitor.edge(self.number, self.iteration, fraction, at_s)

    def plan(self, call: _core.Call, at_s: float) -> _core.Call:
        """The same call with its schedule left to this iteration's plan, which is asked for.

        Args:
            call: As it is to run without a plan.
            at_s: When its bucket was ready.
        """
        if not self._asked:
            self._asked = True
            self._start_if_needed()
            self._monitor.asked(self.number, self.iteration, at_s)
            self._warn_once()
        return call.planned(self.number, self.iteration)

    def submitted(self, ticket: _core.Ticket) -> None:
        """A bucket of this iteration is on its way."""
        self._tickets.append(ticket)

    def arrived(self, arrivals_s: Sequence[float], calls: Sequence[_core.Call]) -> None:
        """The iteration's last bucket is handed over: the next iteration begins.

        Args:
            arrivals_s: (buckets,) when each was ready.
            calls: (buckets,) what was called.
        """
        self._monitor.arrived(self.number, self.iteration, arrivals_s, calls)
        self.iteration += 1
        self._started = self._asked = False
        self._before, self._tickets = self._tickets, []

    def _start_if_needed(self) -> None:
        """Who reports no start is taken to compute from its last result on."""
        if not self._started and self._before:
            ends_s = [ticket.finish_s for ticket in self._before if ticket.done]
            self.start(max(ends_s, default=time.monotonic()))

    def _warn_once(self) -> None:
        if self._warned:
            return
        why = self._engine.plans_ended or self._monitor.failure
        if why:
            self._warned = True
            _log.warning("patallreduce: %s; the ring goes on without predictions", why)
