"""The collectives beside all-reduce: reduce, broadcast, all-gather, reduce-scatter, barrier."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence

import torch

from patallreduce import _core
from patallreduce.communicator.gpu_calls import GpuWork
from patallreduce.communicator.work import Work

_REDUCED_LATER = frozenset({torch.int32, torch.int64, torch.uint8})


class Collectives:
    """What a communicator does beside reducing everything on every rank.

    All work in place, and every rank calls them alike, in the same order as its other collectives.
    Errors are those of `Communicator.all_reduce`.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """This rank, 0 <= rank < ranks."""

    @property
    @abstractmethod
    def ranks(self) -> int:
        """Number of ranks P."""

    @abstractmethod
    def call_for(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        algorithm: str | None = None,
        *,
        segments: int | None = None,
        arrivals_s: Sequence[float] | None = None,
        schedule: _core.Schedule | None = None,
        collective: str = "all_reduce",
        root: int | None = None,
    ) -> _core.Call:
        """Check the arguments of a collective and settle what they leave open."""

    @abstractmethod
    def _run(
        self, tensor: torch.Tensor, call: _core.Call, timeout_s: float | None, *, async_op: bool
    ) -> Work | GpuWork | None: ...

    def reduce(
        self,
        tensor: torch.Tensor,
        root: int | None = None,
        op: str = "sum",
        algorithm: str | None = None,
        *,
        async_op: bool = False,
        segments: int | None = None,
        arrivals_s: Sequence[float] | None = None,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> Work | GpuWork | None:
        """Combine `tensor` over all ranks into the root's, in place.

        The other ranks' tensors are not changed, and are theirs again as soon as nothing reads them
        any more: such a rank may go on while what it sums for others is still under way. Every rank
        calls it with the same arguments; the tensors differ in values alone.

        Args:
            tensor: As of `all_reduce`.
            root: The rank that gets the result, 0 <= root < ranks. None: the schedule's, else 0.
            op: As of `all_reduce`.
            algorithm: One of `algorithms("reduce")`; None: "clairvoyant".
            async_op: Return a `Work` at once instead of waiting; the value of its future is
                `tensor`, which only on the root holds a result.
            segments: As of `all_reduce`.
            arrivals_s: As of `all_reduce`.
            schedule: As of `all_reduce`, but for a reduce.
            timeout_s: Deadline of this collective; None: the communicator's.

        Returns:
            None, or a `Work` if `async_op`.

        Raises:
            TypeError, ValueError: this tensor or argument cannot be used.
            ScheduleError: unknown algorithm, bad root, segments or arrivals.
            MismatchError: ranks called with different arguments or roots; both are named. A rank
                that was done before hears of it in its next call.
            PeerLostError: a rank died or left; it is named.
            TransportTimeout: the deadline passed; the rank that held it up is named.
        """
        call = self.call_for(
            tensor,
            op,
            algorithm,
            segments=segments,
            arrivals_s=arrivals_s,
            schedule=schedule,
            collective="reduce",
            root=None if root is None else operator.index(root),
        )
        return self._run(tensor, call, timeout_s, async_op=async_op)

    def broadcast(
        self,
        tensor: torch.Tensor,
        root: int | None = None,
        algorithm: str | None = None,
        *,
        async_op: bool = False,
        segments: int | None = None,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> Work | GpuWork | None:
        """Copy the root's `tensor` into every rank's.

        Args:
            tensor: As of `all_reduce`; of one size and dtype on all ranks.
            root: The rank whose data all ranks get, 0 <= root < ranks. None: the schedule's,
                else 0.
            algorithm: One of `algorithms("broadcast")`; None: "binomial_broadcast".
            async_op: Return a `Work` at once instead of waiting.
            segments: As of `all_reduce`.
            schedule: As of `all_reduce`, but for a broadcast.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        call = self.call_for(
            tensor,
            "sum",
            algorithm,
            segments=segments,
            schedule=schedule,
            collective="broadcast",
            root=None if root is None else operator.index(root),
        )
        return self._run(tensor, call, timeout_s, async_op=async_op)

    def all_gather(
        self,
        tensor: torch.Tensor,
        algorithm: str | None = None,
        *,
        async_op: bool = False,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> Work | GpuWork | None:
        """Fill every rank's `tensor` with the blocks of all ranks.

        Args:
            tensor: P equal blocks, one after the other: a multiple of P elements. On entry rank r
                has block r; what the others hold is overwritten.
            algorithm: One of `algorithms("all_gather")`; None: "ring_all_gather".
            async_op: Return a `Work` at once instead of waiting.
            schedule: As of `all_reduce`, but for an all-gather; with a multiple of P segments.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        self._check_blocks(tensor)
        call = self.call_for(tensor, "sum", algorithm, schedule=schedule, collective="all_gather")
        return self._run(tensor, call, timeout_s, async_op=async_op)

    def reduce_scatter(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        algorithm: str | None = None,
        *,
        async_op: bool = False,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> Work | GpuWork | None:
        """Combine `tensor` over all ranks, and leave block r on rank r.

        Args:
            tensor: P equal blocks, one after the other: a multiple of P elements. In the end rank r
                has the result in block r; its other blocks hold partial sums.
            op: As of `all_reduce`, but no "avg" of integers: partial sums would be divided.
            algorithm: One of `algorithms("reduce_scatter")`; None: "ring_reduce_scatter".
            async_op: Return a `Work` at once instead of waiting.
            schedule: As of `all_reduce`, but for a reduce-scatter; with a multiple of P segments.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        self._check_blocks(tensor)
        if op == "avg" and tensor.dtype in _REDUCED_LATER:
            raise ValueError(
                f"reduce_scatter: expected another op than avg for {tensor.dtype} "
                f"on rank {self.rank}"
            )
        call = self.call_for(tensor, op, algorithm, schedule=schedule, collective="reduce_scatter")
        return self._run(tensor, call, timeout_s, async_op=async_op)

    def barrier(
        self,
        algorithm: str | None = None,
        *,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Return once every rank has called it.

        Args:
            algorithm: One of `algorithms("barrier")`; None: "dissemination_barrier".
            schedule: As of `all_reduce`, but for a barrier; with one segment.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        nothing = torch.empty(0)
        call = self.call_for(nothing, "sum", algorithm, schedule=schedule, collective="barrier")
        self._run(nothing, call, timeout_s, async_op=False)

    def _check_blocks(self, tensor: torch.Tensor) -> None:
        if isinstance(tensor, torch.Tensor) and tensor.numel() % self.ranks:
            raise ValueError(
                f"expected a multiple of {self.ranks} elements, one block per rank, got "
                f"{tensor.numel()} on rank {self.rank}"
            )
