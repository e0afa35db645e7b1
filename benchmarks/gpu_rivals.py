"""Who is compared on a GPU: our schedules over NCCL's point to point, and ncclAllReduce.

Both queue on the current stream, which goes on behind the result. On the processor, for a
rehearsal, our communicator runs over UCX and Gloo takes NCCL's place.
"""

from __future__ import annotations

import datetime
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.distributed_c10d import _get_default_store

import patallreduce as pat
from patallreduce.stream_communicator import StreamCommunicator, nccl_path

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

    def __init__(self, device: torch.device) -> None:
        timeout = datetime.timedelta(seconds=TIMEOUT_S)
        self._streams: StreamCommunicator | None = None
        self._plain: pat.Communicator | None = None
        if device.type == "cuda":
            store = PrefixStore("patallreduce", _get_default_store())
            self._streams = StreamCommunicator(
                store, dist.get_rank(), dist.get_world_size(), device, timeout_s=TIMEOUT_S
            )
        else:
            link = pat.Link(20e-6, 1e9)  # given: none is measured
            group = dist.new_group(backend="gloo", timeout=timeout)
            self._plain = pat.Communicator(group, timeout_s=TIMEOUT_S, link=link)

    def all_reduce(
        self,
        tensor: torch.Tensor,
        algorithm: str,
        segments: int | None,
        arrivals_s: list[float] | None,
    ) -> Any:
        """Queue a sum; the work to check afterwards, or None if it is done."""
        if self._plain is not None:
            self._plain.all_reduce(
                tensor, "sum", algorithm, segments=segments, arrivals_s=arrivals_s
            )
            return None
        assert self._streams is not None
        work = self._streams.all_reduce(
            tensor, "sum", algorithm, segments=segments, arrivals_s=arrivals_s
        )
        work.wait()
        return work

    def close(self) -> None:
        """Release everything."""
        for communicator in (self._streams, self._plain):
            if communicator is not None:
                communicator.close()


class Ours:
    """One algorithm, with given segments or one per rank: "slt" or "slt:32"."""

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
        if self._work is not None:
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
    """Which NCCL both use."""
    if device.type != "cuda":
        return {"nccl": None}
    from patallreduce import _core

    path, version = _core.nccl_library(nccl_path())
    return {"nccl": version, "nccl_path": path}
