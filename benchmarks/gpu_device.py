"""Where the all-reduce benchmark's tensors are and how its time is taken: a GPU, or a rehearsal.

A GPU's events know the time between each other, not the time of day. So an event on the idle stream
is waited for on the host, which ties all later ones to CLOCK_MONOTONIC, the clock that all ranks of
one machine share. The tightest of several tries counts; it is exact to half its width.

The rehearsal has the same methods on the processor: it lets every other line run without a GPU.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Protocol

import torch

ANCHORS = 20
# Delay kernels of some 10 ms each: the GPU's clock rises under load, so only the last ones count.
CALIBRATION_CYCLES = 20_000_000
CALIBRATIONS, COUNTED = 30, 5


class Device(Protocol):
    """A device with one stream of work."""

    device: torch.device
    anchor_width_s: float

    def anchor(self) -> None:
        """Tie the device's clock to the host's; the device must be idle."""

    def calibrate(self) -> float:
        """Measure how long the device's delays take: a number for `accept`."""

    def accept(self, calibration: float) -> None:
        """Take the measurement of one rank that had the device to itself."""

    def delay(self, delay_s: float) -> None:
        """Keep the stream busy; the host goes on."""

    def mark(self) -> Any:
        """Remember when the stream comes to this point."""

    def time_s(self, mark: Any) -> float:
        """Wait for the mark; its time on CLOCK_MONOTONIC."""

    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def facts(self) -> dict[str, Any]:
        """Describe it."""


class Gpu:
    """The process's first GPU and its current stream."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", 0)
        torch.cuda.set_device(self.device)
        self.anchor_width_s = 0.0
        self._cycles_per_s = 0.0
        self._origin: Any = None
        self._origin_s = 0.0

    def anchor(self) -> None:
        """Tie the device's clock to the host's; the device must be idle."""
        self.synchronize()
        self.anchor_width_s = float("inf")
        for _ in range(ANCHORS):
            event = torch.cuda.Event(enable_timing=True)
            before_s = time.monotonic()
            event.record()
            event.synchronize()
            after_s = time.monotonic()
            if after_s - before_s < self.anchor_width_s:
                self.anchor_width_s = after_s - before_s
                self._origin, self._origin_s = event, (before_s + after_s) / 2

    def calibrate(self) -> float:
        """Clock cycles per second of the delay kernel."""
        rates = []
        for _ in range(CALIBRATIONS):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            torch.cuda._sleep(CALIBRATION_CYCLES)
            last.record()
            last.synchronize()
            rates.append(CALIBRATION_CYCLES / (float(first.elapsed_time(last)) / 1e3))
        return statistics.median(rates[-COUNTED:])

    def accept(self, calibration: float) -> None:
        """Take the measurement of one rank that had the device to itself."""
        self._cycles_per_s = calibration

    def delay(self, delay_s: float) -> None:
        """Queue a kernel that spins for this long."""
        torch.cuda._sleep(int(delay_s * self._cycles_per_s))

    def mark(self) -> Any:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def time_s(self, mark: Any) -> float:
        """Wait for an event; its time on CLOCK_MONOTONIC."""
        mark.synchronize()
        return self._origin_s + float(self._origin.elapsed_time(mark)) / 1e3

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        torch.cuda.synchronize()

    def facts(self) -> dict[str, Any]:
        """Name, driver-side versions and NCCL as torch has it."""
        properties = torch.cuda.get_device_properties(self.device)
        return {
            "gpu": properties.name,
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
            "torch_nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }


class Rehearsal:
    """The processor in a GPU's place: work is done when it is queued."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.anchor_width_s = 0.0

    def anchor(self) -> None:
        """Have nothing to tie: the host's clock is the device's."""

    def calibrate(self) -> float:
        """Return one second per second."""
        return 1.0

    def accept(self, calibration: float) -> None:
        """Have no use for it."""

    def delay(self, delay_s: float) -> None:
        """Sleep."""
        time.sleep(delay_s)

    def mark(self) -> Any:
        """Read the clock."""
        return time.monotonic()

    def time_s(self, mark: Any) -> float:
        """Return what the clock said."""
        return float(mark)

    def synchronize(self) -> None:
        """Have nothing to wait for."""

    def facts(self) -> dict[str, Any]:
        """Say that this is no measurement."""
        return {"gpu": "none: a rehearsal on the processor"}
