"""The all-reduces that are measured side by side, behind one small interface."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, Protocol

import torch
import torch.distributed as dist

PATALLREDUCE = (
    "ring",
    "rabenseifner",
    "recursive_doubling",
    "slt",
    "slt_dynamic",
    "prr",
    "clairvoyant",
    "direct_exchange",
    "reproducible",
    "auto",
)
RIVALS = ("gloo", "openmpi")


class Rival(Protocol):
    """An all-reduce over all ranks; every rank constructs the same rivals in the same order."""

    name: str
    transport: str

    def all_reduce(self, bucket: torch.Tensor, arrivals_s: Sequence[float]) -> None:
        """Sum the bucket over all ranks, in place; return when this rank's result is complete.

        `arrivals_s` is when each rank is expected, in seconds; for those who can use it.
        """

    def edge(self, fraction: float) -> None:
        """Report how much of the computation before the next call is done; for who can use it."""

    def close(self) -> None:
        """Free what the rival holds; may be called again."""


class Gloo:
    """torch.distributed over its default group, as plain DDP uses it on CPUs."""

    name = "gloo"
    transport = "tcp"

    def all_reduce(self, bucket: torch.Tensor, arrivals_s: Sequence[float]) -> None:
        """See `Rival`."""
        dist.all_reduce(bucket)

    def edge(self, fraction: float) -> None:
        """Nothing: it predicts nothing."""

    def close(self) -> None:
        """Nothing: the process group belongs to the caller."""


class OpenMpi:
    """MPI_Allreduce of the MPI that started this process."""

    name = "openmpi"

    def __init__(self, transport: str) -> None:
        # Importing it is MPI_Init; untyped, since it need not be installed.
        mpi: Any = import_module("mpi4py.MPI")
        self.transport = transport
        self._mpi = mpi
        self._world = mpi.COMM_WORLD
        self._in_place = mpi.IN_PLACE

    def all_reduce(self, bucket: torch.Tensor, arrivals_s: Sequence[float]) -> None:
        """See `Rival`."""
        self._world.Allreduce(self._in_place, bucket.numpy())

    def edge(self, fraction: float) -> None:
        """Nothing: it predicts nothing."""

    def close(self) -> None:
        """Finalize MPI: mpi4py would at Python's own ending, which `end_rank` leaves out."""
        if not self._mpi.Is_finalized():
            self._mpi.Finalize()


class Patallreduce:
    """One algorithm of this library; the algorithms share a communicator."""

    def __init__(self, communicator: Any, algorithm: str, transport: str) -> None:
        self.name = algorithm
        self.transport = transport
        self._communicator = communicator
        self._hinted = algorithm in ("slt", "prr", "clairvoyant", "direct_exchange")

    def all_reduce(self, bucket: torch.Tensor, arrivals_s: Sequence[float]) -> None:
        """See `Rival`."""
        hints = {"arrivals_s": list(arrivals_s)} if self._hinted else {}
        self._communicator.all_reduce(bucket, op="sum", algorithm=self.name, **hints)

    def edge(self, fraction: float) -> None:
        """See `Rival`; auto alone predicts."""
        if self.name == "auto":
            self._communicator.edge(fraction)

    @property
    def link(self) -> dict[str, Any]:
        """What plans are priced with: as the communicator measured it."""
        return asdict(self._communicator.link)

    def plans(self, from_s: Sequence[float]) -> list[dict[str, Any]]:
        """What was predicted and planned for the last iterations, on rank 0; empty elsewhere.

        Args:
            from_s: The iterations' first arrivals, from which on their times are given.

        """
        if self._communicator.rank != 0:
            return []
        known = [i for i in self._communicator.iterations() if i.buckets]
        return [
            {
                "algorithm": iteration.buckets[0].algorithm,
                "segments": iteration.buckets[0].segments,
                "planned": iteration.buckets[0].planned,
                "decided_s": round(iteration.decided_s - first_s, 6),
                "edges": iteration.edges,
                "predicted_s": [
                    None if math.isnan(s) else round(s - first_s, 4)
                    for s in iteration.buckets[0].predicted_s
                ],
            }
            for iteration, first_s in zip(known[-len(from_s) :], from_s, strict=False)
        ]

    def close(self) -> None:
        """Close the shared communicator."""
        self._communicator.close()


def make_rivals(names: Sequence[str], *, shared_memory: bool) -> list[Rival]:
    """Make the rivals of those names, in that order; the default process group must be up."""
    link = "shm" if shared_memory else "tcp"
    communicator: Any = None
    rivals: list[Rival] = []
    for name in names:
        if name == "gloo":
            rivals.append(Gloo())
        elif name == "openmpi":
            rivals.append(OpenMpi(link))
        elif name in PATALLREDUCE:
            if communicator is None:
                import patallreduce as pat

                communicator = pat.Communicator()
            rivals.append(Patallreduce(communicator, name, f"ucx-{link}"))
        else:
            raise ValueError(f"algorithm {name!r}: expected one of {[*PATALLREDUCE, *RIVALS]}")
    return rivals
