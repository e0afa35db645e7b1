"""Streams: series of iterations whose arrivals are reported, predicted and planned."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from patallreduce import _core

if TYPE_CHECKING:
    from patallreduce.communicator.gpu_calls import GpuTicket

_log = logging.getLogger("patallreduce")

PLAIN = 0  # the stream of the collectives outside DDP; models count from 1


class Warner:
    """Logs once, for all streams of a communicator, that predictions have ended here."""

    def __init__(self, monitor: _core.Monitor, engine: _core.Engine) -> None:
        self._monitor = monitor
        self._engine = engine
        self._warned = False

    def look(self) -> None:
        """Log if there is a reason and it is not logged yet."""
        if self._warned:
            return
        if why := self._engine.plans_ended:
            then = "from here on every call runs its own schedule, without predictions"
        elif why := self._monitor.failure:
            then = "this rank takes its schedules from the other ranks"
        else:
            return
        self._warned = True
        _log.warning("patallreduce: %s; %s", why, then)


class Stream:
    """One series of iterations: a model's, or that of the collectives outside DDP.

    Every rank makes the same planned calls in the same order, so counting numbers the iterations
    alike. All times are seconds of `time.monotonic()`.

    Args:
        monitor: This rank's progress monitor.
        warner: Says when there are no more plans.
        number: Names the stream: the same on every rank.
    """

    def __init__(self, monitor: _core.Monitor, warner: Warner, number: int) -> None:
        self._monitor = monitor
        self._warner = warner
        self.number = number
        self.iteration = 0
        self._started = False
        self._asked = False
        self._tickets: list[_core.Ticket | GpuTicket] = []  # of this iteration
        self._before: list[_core.Ticket | GpuTicket] = []  # of the one before

    def start(self, at_s: float) -> None:
        """The computation of an iteration began."""
        self._started = True
        iteration, before = self.iteration, self._before

        def report() -> None:
            finish_s = [t.finish_s if t.done else math.nan for t in before]
            self._monitor.started(self.number, iteration, at_s, finish_s)

        self._report(report)

    def edge(self, fraction: float, at_s: float) -> None:
        """`fraction` of the iteration's computation is done."""
        self._start_if_needed()
        iteration = self.iteration
        self._report(lambda: self._monitor.edge(self.number, iteration, fraction, at_s))

    def plan(self, call: _core.Call, at_s: float) -> _core.Call:
        """The same call with its schedule left to this iteration's plan, which is asked for.

        Args:
            call: As it is to run without a plan.
            at_s: When its bucket was ready; NaN: not known.
        """
        if not self._asked:
            self._asked = True
            self._start_if_needed()
            self._monitor.asked(self.number, self.iteration, at_s)
            self._warner.look()
        return call.planned(self.number, self.iteration)

    def submitted(self, ticket: _core.Ticket | GpuTicket) -> None:
        """A bucket of this iteration is on its way."""
        self._tickets.append(ticket)

    def arrived(self, arrivals_s: Sequence[float], calls: Sequence[_core.Call]) -> None:
        """The iteration's last bucket is handed over: the next iteration begins.

        Args:
            arrivals_s: (buckets,) when each was ready.
            calls: (buckets,) what was called.
        """
        self._report_arrivals(arrivals_s, calls)
        self.iteration += 1
        self._started = self._asked = False
        self._before, self._tickets = self._tickets, []

    def _start_if_needed(self) -> None:
        """Who reports no start is taken to compute from its last result on."""
        if not self._started and self._before:
            ends_s = [ticket.finish_s for ticket in self._before if ticket.done]
            self.start(max(ends_s, default=time.monotonic()))

    def _report(self, report: Callable[[], None]) -> None:
        report()

    def _report_arrivals(self, arrivals_s: Sequence[float], calls: Sequence[_core.Call]) -> None:
        self._monitor.arrived(self.number, self.iteration, arrivals_s, calls)


class GpuStream(Stream):
    """A stream of which the GPU's times count: a rank arrives when its GPU has the gradients.

    The host is ahead of that. So what it reports of the next iteration waits until the arrivals of
    this one are known, or until it asks for a plan; the leader hears all in order.
    """

    def __init__(self, monitor: _core.Monitor, warner: Warner, number: int) -> None:
        super().__init__(monitor, warner, number)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[list[_core.Ticket | GpuTicket], Callable[[], None]]] = deque()

    def plan(self, call: _core.Call, at_s: float) -> _core.Call:
        """As of `Stream`. Arrivals that are not known yet are reported as unknown."""
        if not self._asked:
            self._flush(at_once=True)
        return super().plan(call, math.nan)

    @property
    def is_holding(self) -> bool:
        """Whether a report waits for the GPU."""
        return bool(self._waiting)

    def flush(self) -> None:
        """Report what is known."""
        self._flush(at_once=False)

    def _flush(self, *, at_once: bool) -> None:
        with self._lock:
            while self._waiting:
                tickets, report = self._waiting[0]
                if not at_once and not all(ticket.arrival_s > 0 for ticket in tickets):
                    return
                self._waiting.popleft()
                report()

    def _report(self, report: Callable[[], None]) -> None:
        with self._lock:
            if not self._waiting:
                report()
            else:
                self._waiting.append(([], report))

    def _report_arrivals(self, arrivals_s: Sequence[float], calls: Sequence[_core.Call]) -> None:
        iteration, tickets = self.iteration, list(self._tickets)

        def report() -> None:
            known_s = [t.arrival_s if t.arrival_s > 0 else math.nan for t in tickets]
            self._monitor.arrived(self.number, iteration, known_s, calls)

        with self._lock:
            self._waiting.append((tickets, report))
