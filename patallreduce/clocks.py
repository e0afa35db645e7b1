"""When something happened on a device, by its host's clock; and delays, to try what lateness costs.

A GPU runs behind its host: kernels are queued and end later. So a moment on it is an event on the
stream that is current, read once the event is over. Events know the time between each other, not
the time of day: one event on the idle stream is waited for on the host, which ties later ones to
`time.monotonic()`, the one clock of all processes of a machine.
"""

from __future__ import annotations

import time
from typing import TypeAlias

import torch

_TRIAL_CYCLES = 1_000_000  # some 0.5 ms: shorter than a turn of ranks that share a GPU
_TRIALS = 600  # 0.3 s, in which the GPU's clock rises


class HostClock:
    """Notes when a rank on the processor did something; seconds are of `time.monotonic()`."""

    width_s = 0.0

    def start(self) -> float:
        """Begin an iteration; return when that was."""
        return time.monotonic()

    def mark(self) -> object:
        """Note the moment at which everything that was asked for so far is done."""
        return time.monotonic()

    def seconds(self, mark: object) -> float:
        """When a mark of this iteration was reached; on a GPU, waits for it."""
        assert isinstance(mark, float)
        return mark

    def delay(self, seconds: float) -> None:
        """Let what follows come later."""
        # Sleeping, not spinning: where ranks share cores a spinning one delays the others too.
        time.sleep(seconds)


class GpuClock:
    """The same of a rank on torch's current GPU, on the stream that is current.

    Args:
        cycles_per_s: As `delay_cycles_per_s` measures it; needed for delays only.
        tries: How often `start` looks at both clocks. The tightest look counts: it is exact to
            half of `width_s`, the time between its two readings of the host's clock.
    """

    def __init__(self, cycles_per_s: float = 0.0, *, tries: int = 1) -> None:
        self.width_s = 0.0
        self._cycles_per_s = cycles_per_s
        self._tries = tries
        self._begin: torch.cuda.Event | None = None
        self._begin_s = 0.0

    def start(self) -> float:
        """As `HostClock.start`; the GPU must have nothing to do, or have several tries."""
        self.width_s = float("inf")
        for _ in range(self._tries):
            event = torch.cuda.Event(enable_timing=True)
            before_s = time.monotonic()
            event.record()
            event.synchronize()
            after_s = time.monotonic()
            if after_s - before_s < self.width_s:
                self.width_s = after_s - before_s
                self._begin, self._begin_s = event, (before_s + after_s) / 2
        return self._begin_s

    def mark(self) -> object:
        """As `HostClock.mark`: put an event on the stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: object) -> float:
        """As `HostClock.seconds`."""
        assert isinstance(mark, torch.cuda.Event)
        assert self._begin is not None, "the clock has not been started"
        mark.synchronize()
        return self._begin_s + float(self._begin.elapsed_time(mark)) / 1e3

    def delay(self, seconds: float) -> None:
        """As `HostClock.delay`: the GPU is late and its host is not, as with a slower GPU.

        A host that slept would queue its kernels later, so its GPU would be late as well, but
        nothing of the all-reduce could be queued meanwhile.
        """
        if seconds > 0:
            torch.cuda._sleep(round(seconds * self._cycles_per_s))


Clock: TypeAlias = HostClock | GpuClock


def make_clock(device: torch.device, *, may_delay: bool) -> Clock:
    """The clock for a device; on a GPU it is measured how long a delay takes, if there is one."""
    if device.type != "cuda":
        return HostClock()
    return GpuClock(delay_cycles_per_s() if may_delay else 0.0)


def delay_cycles_per_s() -> float:
    """How fast torch's kernel for delays counts, with the clock of a busy GPU.

    The fastest trial: the first ones raise the clock, and others may have had their turn meanwhile.
    """
    rates = []
    for _ in range(_TRIALS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.cuda._sleep(_TRIAL_CYCLES)
        end.record()
        end.synchronize()
        rates.append(_TRIAL_CYCLES / (float(begin.elapsed_time(end)) / 1e3))
    return max(rates)
