"""Who is compared on a GPU: our schedules over NCCL's point to point, and ncclAllReduce.

Both queue on the current stream, which goes on behind the result. On the processor, for a
rehearsal, our communicator runs over UCX and Gloo takes NCCL's place.
"""

from __future__ import annotations

import datetime
from typing import Any, Protocol

import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.gpu_calls import GpuWork
from patallreduce.gpu import nccl

TIMEOUT_S = 60.0
THEIRS = "nccl"


class Rival(Protocol):
    """Somebody who can all-reduce."""

    name: str

    def all_reduce(self, tensor: torch.Tensor, arrivals_s: list[float] | None) -> None:
        """Sum in place; the current stream goes on behind the result."""

    def check(self) -> None:
        """Raise what the last call failed with; the device is idle."""

    def close(self) -> None:
        """Release everything."""


class OurCommunicator:
    """The one place that knows how our communicator is made and called."""

    def __init__(self, transport: str) -> None:
        link = pat.Link(20e-6, 1e9)  # given: none is measured
        self._communicator = pat.Communicator(
            transport=transport, timeout_s=TIMEOUT_S, link=link, monitor=False
        )

    def all_reduce(
        self,
        tensor: torch.Tensor,
        algorithm: str,
        segments: int | None,
        arrivals_s: list[float] | None,
    ) -> Any:
        """Queue a sum, behind which the current stream goes on; the work to check afterwards."""
        work = self._communicator.all_reduce(
            tensor, "sum", algorithm, True, segments=segments, arrivals_s=arrivals_s
        )
        assert work is not None
        work.wait()
        return work

    def close(self) -> None:
        """Release everything."""
        self._communicator.close()


class Ours:
    """One algorithm, with given segments or those we would take: "slt" or "slt:32"."""

    def __init__(self, communicator: OurCommunicator, name: str) -> None:
        self.name = name
        self._communicator = communicator
        self._algorithm, _, segments = name.partition(":")
        self._segments = int(segments) if segments else None
        self._work: Any = None

    def all_reduce(self, tensor: torch.Tensor, arrivals_s: list[float] | None) -> None:
        """Sum in place; the arrivals are known, as a right prediction would have them."""
        self._work = self._communicator.all_reduce(
            tensor, self._algorithm, self._segments, arrivals_s
        )

    def check(self) -> None:
        """Raise what the last call failed with."""
        if isinstance(self._work, GpuWork):
            self._work.synchronize()

    def close(self) -> None:
        """Leave the communicator, which others share, to its owner."""


class Theirs:
    """ncclAllReduce by torch.distributed, which is told nothing about arrivals."""

    name = THEIRS

    def __init__(self, device: torch.device) -> None:
        backend = "nccl" if device.type == "cuda" else "gloo"
        self.group = dist.new_group(backend=backend, timeout=datetime.timedelta(seconds=TIMEOUT_S))

    def all_reduce(self, tensor: torch.Tensor, arrivals_s: list[float] | None) -> None:
        """Sum in place."""
        del arrivals_s
        dist.all_reduce(tensor, group=self.group)

    def transfer(self, tensor: torch.Tensor) -> None:
        """From rank 0 to rank 1: the yardstick M*beta."""
        if dist.get_rank() == 0:
            dist.send(tensor, 1, group=self.group)
        elif dist.get_rank() == 1:
            dist.recv(tensor, 0, group=self.group)

    def check(self) -> None:
        """Have nothing to add: torch's watchdog ends the process."""

    def close(self) -> None:
        """Leave the group to destroy_process_group."""


def facts(device: torch.device) -> dict[str, Any]:
    """Which GPU, and which NCCL both use; on the processor, that this is no measurement."""
    if device.type != "cuda":
        return {"gpu": "none: a rehearsal on the processor", "nccl": None}
    properties = torch.cuda.get_device_properties(device)
    path, version = _core.nccl_library(nccl.library_path())
    return {
        "gpu": properties.name,
        "memory_bytes": properties.total_memory,
        "cuda": torch.version.cuda,
        "torch_nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "nccl": version,
        "nccl_path": path,
    }
