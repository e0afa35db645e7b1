"""Training loops: series of iterations whose arrivals are reported, predicted and planned."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from patallreduce import _core
from patallreduce.communicator.tickets import Ticket

_log = logging.getLogger("patallreduce")

PLAIN = 0  # the loop of the collectives outside DDP; models count from 1


class Warner:
    """Logs once, for all loops of a communicator, that predictions have ended here."""

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


class _Bucket(NamedTuple):
    ticket: Ticket
    call: _core.Call
    ready_s: float  # handed over


class Loop:
    """One series of iterations: a model's, or that of the collectives outside DDP.

    Every rank makes the same planned calls in the same order, so counting numbers the iterations
    alike. All times are seconds of `time.monotonic()`.

    Args:
        monitor: This rank's progress monitor.
        warner: Says when there are no more plans.
        number: Names the loop: the same on every rank.
    """

    def __init__(self, monitor: _core.Monitor, warner: Warner, number: int) -> None:
        self._monitor = monitor
        self._warner = warner
        self.number = number
        self.iteration = 0
        self._started = False
        self._asked = False
        self._buckets: list[_Bucket] = []  # of this iteration
        self._before: list[Ticket] = []  # of the one before

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

    def submitted(
        self, ticket: Ticket, call: _core.Call, ready_s: float, *, first: bool = False
    ) -> None:
        """A bucket of this iteration is on its way.

        Args:
            ticket: Its outcome.
            call: As it runs without a plan.
            ready_s: When it was handed over.
            first: Whether it is the iteration's first: what an iteration that failed left is then
                forgotten.
        """
        if first:
            self._buckets.clear()
        self._buckets.append(_Bucket(ticket, call, ready_s))

    def arrived(self, arrivals_s: Sequence[float] | None = None) -> None:
        """The iteration's last bucket is handed over: the next iteration begins.

        Args:
            arrivals_s: (buckets,) when each was ready; None: when it was handed over.
        """
        if arrivals_s is None:
            arrivals_s = [bucket.ready_s for bucket in self._buckets]
        self._report_arrivals(arrivals_s, [bucket.call for bucket in self._buckets])
        self.iteration += 1
        self._started = self._asked = False
        self._before, self._buckets = [bucket.ticket for bucket in self._buckets], []

    def _start_if_needed(self) -> None:
        """Who reports no start is taken to compute from its last result on."""
        if not self._started and self._before:
            ends_s = [ticket.finish_s for ticket in self._before if ticket.done]
            self.start(max(ends_s, default=time.monotonic()))

    def _report(self, report: Callable[[], None]) -> None:
        report()

    def _report_arrivals(self, arrivals_s: Sequence[float], calls: Sequence[_core.Call]) -> None:
        self._monitor.arrived(self.number, self.iteration, arrivals_s, calls)


class GpuLoop(Loop):
    """A loop of which the GPU's times count: a rank arrives when its GPU has the gradients.

    The host is ahead of that. So what it reports of the next iteration waits until the arrivals of
    this one are known, or until it asks for a plan; the leader hears all in order.
    """

    def __init__(self, monitor: _core.Monitor, warner: Warner, number: int) -> None:
        super().__init__(monitor, warner, number)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[list[Ticket], Callable[[], None]]] = deque()

    def plan(self, call: _core.Call, at_s: float) -> _core.Call:
        """As of `Loop`. Arrivals that are not known yet are reported as unknown."""
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
        iteration, tickets = self.iteration, [bucket.ticket for bucket in self._buckets]

        def report() -> None:
            known_s = [t.arrival_s if t.arrival_s > 0 else math.nan for t in tickets]
            self._monitor.arrived(self.number, iteration, known_s, calls)

        with self._lock:
            self._waiting.append((tickets, report))
