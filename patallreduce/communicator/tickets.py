"""Outcomes and times of collectives that were started."""

from __future__ import annotations

from typing import Any, TypeAlias

from patallreduce import _core

NativeTicket = Any  # the core's two for a GPU's data: alike but for their types


class GpuTicket:
    """Outcome and times of one collective, as `_core.Ticket` has them for CPU tensors.

    Times are seconds of `time.monotonic()`, seen by a thread that looks every half millisecond:
    when the GPU had the contribution and the result, not when the host called.
    """

    def __init__(self, native: NativeTicket) -> None:
        self.native = native

    @property
    def arrival_s(self) -> float:
        """When the contribution was there; 0: not yet."""
        return float(self.native.arrival_s)

    @property
    def finish_s(self) -> float:
        """When the result was there; 0: not yet."""
        return float(self.native.finish_s)

    @property
    def done(self) -> bool:
        """Whether the result is there."""
        return self.finish_s > 0

    @property
    def drained_s(self) -> float:
        """As `finish_s`: what is still sent then nobody notes."""
        return self.finish_s

    @property
    def seq(self) -> int:
        """Its number among the collectives of its communicator; -1: it has none yet."""
        ticket: _core.Ticket | None = self.native.engine_ticket
        return -1 if ticket is None else ticket.seq

    @property
    def key_text(self) -> str:
        """What ran."""
        ticket: _core.Ticket | None = self.native.engine_ticket
        return "" if ticket is None else ticket.key_text

    @property
    def planned(self) -> bool:
        """Whether a plan said what to run."""
        ticket: _core.Ticket | None = self.native.engine_ticket
        return ticket is not None and ticket.planned

    @property
    def place(self) -> int:
        """As of `_core.Ticket`."""
        ticket: _core.Ticket | None = self.native.engine_ticket
        return -1 if ticket is None else ticket.place

    def check(self) -> None:
        """Raise what it failed with, if it did."""
        self.native.check()


Ticket: TypeAlias = _core.Ticket | GpuTicket
