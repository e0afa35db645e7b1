"""All-reduce, reduce, broadcast, all-gather, reduce-scatter and barrier of a communicator."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from patallreduce import _core
from patallreduce.arguments import flag
from patallreduce.communicator.calls import Op, op_name
from patallreduce.communicator.gpu_calls import GpuWork
from patallreduce.communicator.loops import Loop
from patallreduce.communicator.session import Session
from patallreduce.communicator.settler import Arguments
from patallreduce.communicator.work import Work

_REDUCED_LATER = frozenset({torch.int32, torch.int64, torch.uint8})


class Collectives:
    """The collectives of a communicator, run by its session.

    All work in place, and every rank calls them alike, in the same order.
    Errors are those of `all_reduce`.
    """

    def __init__(self, session: Session) -> None:
        self.session = session  # the package's; hooks run their buckets through it

    @property
    def rank(self) -> int:
        """This rank's number within the group."""
        return self.session.transport.rank

    @property
    def ranks(self) -> int:
        """How many ranks the group has."""
        return self.session.transport.ranks

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: Op = "sum",
        algorithm: str = "auto",
        async_op: bool = False,
        *,
        segments: int | None = None,
        arrivals_s: Sequence[float] | None = None,
        segment_time_s: float | None = None,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> Work | GpuWork | None:
        """Combine `tensor` over all ranks, in place: every rank ends with the same bits.

        Every rank calls it with the same arguments; the tensors differ in values alone.

        Args:
            tensor: Contiguous CPU or CUDA tensor of any shape: float32, float64, float16, bfloat16,
                int32, int64 or uint8. On a GPU the collective comes behind what the current stream
                has queued so far, and what is queued there afterwards comes behind the result; the
                host waits only until every rank has called alike. Such calls are not predicted
                outside DDP.
            op: "sum", "avg", "min", "max" or "prod", or torch's `ReduceOp.SUM` and so on. float16
                and bfloat16 convert to float32, combine and round back at every addition, as torch
                does element-wise; "avg"
                multiplies by 1 / ranks before summing, as DistributedDataParallel does. Integers
                wrap; their "avg" divides the sum, truncating. A sum or product that is a NaN is
                the quiet NaN without sign and payload; infinities, -0 and subnormals are as in
                IEEE 754, also where the caller's thread flushes subnormals to zero.
            algorithm: One of `algorithms()`, or "auto". "reproducible" gives the same bits whatever
                the transport, the segments, the arrivals and the timing: the sum of one fixed tree
                over the ranks. "auto" stands for it while
                `torch.are_deterministic_algorithms_enabled()`, and never takes it otherwise.
            async_op: Return a `Work` at once instead of waiting; for a CUDA tensor a `GpuWork`.
            segments: Into how many segments the message is cut, >= 1 and at most its elements.
                None: by `choose_segments`.
            arrivals_s: (ranks,) hints of when each rank arrives, seconds >= 0 on any common clock;
                a wrong hint costs time only.
            segment_time_s: prr's tau: seconds to transfer and reduce one part of the message.
                None: from the link.
            schedule: What to run, in place of algorithm, segments and hints: of
                `patallreduce.schedule`, or of your own steps by `Schedule.from_steps`; for
                all_reduce, and with at most as many segments as the tensor has elements. All ranks
                give the same steps. It is proved, as by `verify`, the first time that this
                communicator is given the object, before anything is sent: milliseconds up to some
                100,000 steps. A late rank begins before it comes, as with an algorithm's name,
                once it has run these steps before; the first time when it comes.
            timeout_s: Deadline of this collective; None: the communicator's.

        Returns:
            None, or a `Work` if `async_op`.

        Raises:
            TypeError, ValueError: this tensor or argument cannot be used.
            ScheduleError: unknown algorithm, bad segments or arrivals; a schedule that is wrong,
                or for another collective or number of ranks.
            MismatchError: ranks called with different arguments; both are named.
            PeerLostError: a rank died or left; it is named.
            TransportTimeout: the deadline passed; the rank that held it up is named.
        """
        name = op_name(op, self.rank)
        asked = Arguments(name, algorithm, segments, arrivals_s, segment_time_s, schedule=schedule)
        loop = self.session.plain
        return self._run(tensor, asked, timeout_s, async_op=async_op, loop=loop)

    def reduce(
        self,
        tensor: torch.Tensor,
        root: int | None = None,
        op: Op = "sum",
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
            algorithm: One of `algorithms("reduce")`. None: "clairvoyant", unless another takes
                clearly less where all arrive together, by a tuning file or the model.
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
        asked = Arguments(
            op_name(op, self.rank),
            algorithm,
            segments,
            arrivals_s,
            collective="reduce",
            root=root,
            schedule=schedule,
        )
        return self._run(tensor, asked, timeout_s, async_op=async_op)

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
            algorithm: One of `algorithms("broadcast")`. None: by a tuning file, else
                "binomial_broadcast" unless another takes clearly less by the model.
            async_op: Return a `Work` at once instead of waiting.
            segments: As of `all_reduce`.
            schedule: As of `all_reduce`, but for a broadcast.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        asked = Arguments(
            "sum",
            algorithm,
            segments,
            collective="broadcast",
            root=root,
            schedule=schedule,
        )
        return self._run(tensor, asked, timeout_s, async_op=async_op)

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
            algorithm: One of `algorithms("all_gather")`. None: by a tuning file, else
                "ring_all_gather" unless another takes clearly less by the model.
            async_op: Return a `Work` at once instead of waiting.
            schedule: As of `all_reduce`, but for an all-gather; with a multiple of P segments.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        self._check_blocks(tensor)
        asked = Arguments("sum", algorithm, collective="all_gather", schedule=schedule)
        return self._run(tensor, asked, timeout_s, async_op=async_op)

    def reduce_scatter(
        self,
        tensor: torch.Tensor,
        op: Op = "sum",
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
            algorithm: One of `algorithms("reduce_scatter")`. None: by a tuning file, else
                "ring_reduce_scatter" unless another takes clearly less by the model.
            async_op: Return a `Work` at once instead of waiting.
            schedule: As of `all_reduce`, but for a reduce-scatter; with a multiple of P segments.
            timeout_s: Deadline of this collective; None: the communicator's.

        Source: TUNE07, section 4.1.2.
        """
        self._check_blocks(tensor)
        name = op_name(op, self.rank)
        if name == "avg" and tensor.dtype in _REDUCED_LATER:
            raise ValueError(
                f"op: expected another than avg for a reduce_scatter of {tensor.dtype} "
                f"on rank {self.rank}"
            )
        asked = Arguments(name, algorithm, collective="reduce_scatter", schedule=schedule)
        return self._run(tensor, asked, timeout_s, async_op=async_op)

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
        asked = Arguments("sum", algorithm, collective="barrier", schedule=schedule)
        self._run(torch.empty(0), asked, timeout_s, async_op=False)

    def _run(
        self,
        tensor: torch.Tensor,
        asked: Arguments,
        timeout_s: float | None,
        *,
        async_op: bool,
        loop: Loop | None = None,
    ) -> Work | GpuWork | None:
        flag("async_op", async_op, self.rank)
        work = self.session.run(
            tensor, asked, loop=loop, timeout_s=timeout_s, caller_waits=not async_op
        )
        if async_op:
            return work
        work.wait()
        return None

    def _check_blocks(self, tensor: torch.Tensor) -> None:
        if isinstance(tensor, torch.Tensor) and tensor.numel() % self.ranks:
            raise ValueError(
                f"tensor: expected a multiple of {self.ranks} elements, one block per rank, got "
                f"{tensor.numel()} on rank {self.rank}"
            )
