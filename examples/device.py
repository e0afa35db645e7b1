"""Where a rank computes: on the processor, or on a GPU, chosen by its number on its machine.

A GPU runs behind its host: kernels are queued and end later. So when the GPU did something is noted
as an event on its stream, and read once the iteration is over; events are put on the host's clock
by one event at the start of each iteration, when the GPU has nothing to do and its host waits for
that event. The error is the time between the event and the host's look at its own clock.
"""

import os
import time
from dataclasses import dataclass
from typing import TypeAlias

import torch

_TRIAL_CYCLES = 1_000_000  # some 0.5 ms: shorter than a turn of ranks that share a GPU
_TRIALS = 300


@dataclass(frozen=True)
class Place:
    """What a training script needs to know of the device."""

    device: torch.device
    backend: str  # of the process group: what is on the processor goes through Gloo everywhere

    @property
    def device_ids(self) -> list[int] | None:
        """As DistributedDataParallel wants it: None for a model on the processor."""
        return None if self.device.index is None else [self.device.index]


def choose_place(name: str) -> Place:
    """Take the processor, or this rank's GPU, which becomes torch's current device.

    Ranks of a machine with fewer GPUs share them, which is for trying out only: NCCL refuses two
    ranks on one GPU of one host, so each then goes for a host of its own, and their data through
    sockets.

    Raises:
        SystemExit: There is no GPU.
    """
    if name == "cpu":
        return Place(torch.device("cpu"), "gloo")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        raise SystemExit(f"--device cuda: torch {torch.__version__} sees no GPU")
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > gpus:
        os.environ.setdefault("NCCL_HOSTID", f"{os.uname().nodename}-{rank}")
    device = torch.device("cuda", rank % gpus)
    torch.cuda.set_device(device)
    return Place(device, "cpu:gloo,cuda:nccl")


class HostClock:
    """Notes when a rank on the processor did something; seconds are of `time.monotonic()`."""

    def start(self) -> float:
        """Begin an iteration; return when that was."""
        return time.monotonic()

    def mark(self) -> object:
        """Note the moment at which everything that was asked for so far is done."""
        return time.monotonic()

    def seconds(self, mark: object) -> float:
        """When a mark of this iteration was reached; on a GPU it must be over."""
        assert isinstance(mark, float)
        return mark

    def delay(self, seconds: float) -> None:
        """Let what follows come later."""
        # Sleeping, not spinning: where ranks share cores a spinning one delays the others too.
        time.sleep(seconds)


class GpuClock:
    """The same of a rank on torch's current GPU, on the stream that is current."""

    def __init__(self, *, may_delay: bool) -> None:
        self._begin = torch.cuda.Event(enable_timing=True)
        self._begin_s = 0.0
        self._cycles_per_s = _cycles_per_s() if may_delay else 0.0

    def start(self) -> float:
        """As `HostClock.start`; the GPU must have nothing to do."""
        self._begin.record()
        self._begin.synchronize()
        self._begin_s = time.monotonic()
        return self._begin_s

    def mark(self) -> object:
        """As `HostClock.mark`: put an event on the stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: object) -> float:
        """As `HostClock.seconds`."""
        assert isinstance(mark, torch.cuda.Event)
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
    return GpuClock(may_delay=may_delay) if device.type == "cuda" else HostClock()


def _cycles_per_s() -> float:
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
