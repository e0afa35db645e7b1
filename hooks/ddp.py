"""The communication hook: DDP hands over a bucket, and gets a future of its average.

The hook never waits. It checks the bucket, settles algorithm and segments (the same on every rank,
from the bucket's size, the link and the hints), gives it to the engine and returns the future.
Nothing is remembered of a bucket, so DDP may rebuild its buckets at any time.

No postponed annotations here: DDP compares the annotations of a hook with the classes themselves.
"""

import logging
import time
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from patallreduce import _core
from patallreduce.communicator.calls import REPRODUCIBLE, left_open
from patallreduce.communicator.communicator import Communicator
from patallreduce.hooks.layers import Layers
from patallreduce.hooks.leaves import Leaves, leaves_hook
from patallreduce.hooks.profile import submit_in_profile
from patallreduce.pricing.link import Link
from patallreduce.records.iterations import Iteration
from patallreduce.records.stragglers import Report, straggler_report

_log = logging.getLogger("patallreduce")

# One communicator per process group (and its settings) serves all the models on it.
_shared: "weakref.WeakValueDictionary[tuple[Any, ...], Communicator]" = (
    weakref.WeakValueDictionary()
)
_users: "weakref.WeakKeyDictionary[Communicator, int]" = weakref.WeakKeyDictionary()


class State:
    """What `allreduce_hook` works with, for one model; plain data apart from its communicator.

    Making one is collective over the process group, as making a `Communicator` is.

    Args:
        process_group: The group that DDP was given; None for the default one.
        algorithm: One of `algorithms()`, or "auto".
        arrivals_s: (ranks,) hints of when each rank's gradients are ready, seconds >= 0; equal on
            all ranks. They order slt and prr; a wrong hint costs time only.
        segments: Segments per bucket; None: by rule.
        transport: As of `Communicator`.
        timeout_s: Deadline of every bucket, seconds; None: PATALLREDUCE_TIMEOUT_S, or 300.
        monitor: Whether to predict arrivals; None: PATALLREDUCE_MONITOR, or True.
        link: Latency and bandwidth between ranks, equal on all ranks; None: measured at once.
        device: The model's, None for the processor.

    It pickles without its communicator, and makes one on the default group when it is loaded, with
    a warning, as torch's PowerSGDState does.
    """

    __slots__ = (
        "_handed",
        "_released",
        "algorithm",
        "arrivals_s",
        "communicator",
        "device",
        "layers",
        "link",
        "monitor",
        "process_group",
        "segments",
        "stream",
        "timeout_s",
        "transport",
    )

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        *,
        algorithm: str = "auto",
        arrivals_s: Sequence[float] | None = None,
        segments: int | None = None,
        transport: str = "auto",
        timeout_s: float | None = None,
        monitor: bool | None = None,
        link: Link | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.process_group = process_group
        self.algorithm = algorithm
        self.arrivals_s = None if arrivals_s is None else [float(a) for a in arrivals_s]
        self.segments = segments
        self.transport = transport
        self.timeout_s = timeout_s
        self.monitor = monitor
        self.link = link
        self.device = device
        self.communicator = _communicator(process_group, transport, timeout_s, monitor, link)
        self.stream = self.communicator.new_stream(device)
        self.layers: Layers | None = None
        self._handed: list[tuple[float, _core.Call]] = []  # buckets of this iteration
        # A bad hint, name or segment count should not wait for the first backward.
        self._check()
        self._released = False
        _users[self.communicator] = _users.get(self.communicator, 0) + 1

    def _check(self) -> None:
        probe = torch.empty(max(self.segments or 1, 1))
        self.communicator.call_for(
            probe, "avg", self.algorithm, segments=self.segments, arrivals_s=self.arrivals_s
        )

    def call_for(self, tensor: torch.Tensor, index: int) -> _core.Call:
        """Settle the call for the bucket of that index."""
        segments = self.segments
        if segments is not None:
            segments = min(segments, max(tensor.numel(), 1))  # a bucket can be tiny
        return self.communicator.call_for(
            tensor,
            "avg",
            self.algorithm,
            segments=segments,
            arrivals_s=self.arrivals_s,
            label=index,
        )

    def submit(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the average of a bucket; tell the stream when it was ready."""
        tensor, index, is_last = bucket.buffer(), bucket.index(), bucket.is_last()
        call = self.call_for(tensor, index)
        stream = self.stream
        if stream is None:
            return submit_in_profile(self.communicator, tensor, call, index)[1]
        now_s = time.monotonic()
        arrivals_s = None
        if self.layers is not None:
            arrivals_s = self.layers.bucket(index, bucket.parameters(), is_last)
        if index == 0:
            self._handed.clear()
        self._handed.append((now_s, call))
        if left_open(
            self.algorithm, self.segments, self.arrivals_s
        ) and self.communicator.worth_planning(tensor.nbytes):
            call = stream.plan(call, now_s)
        ticket, future = submit_in_profile(self.communicator, tensor, call, index)
        stream.submitted(ticket)
        if is_last:
            called_s, calls = zip(*self._handed, strict=True)
            stream.arrived(arrivals_s if arrivals_s is not None else called_s, calls)
        return future

    def release(self) -> None:
        """Give the communicator up; the last state on it closes it. Idempotent."""
        if not self._released:
            self._released = True
            if self.layers is not None:
                self.layers.remove()
            _users[self.communicator] -= 1
            if _users[self.communicator] <= 0:
                self.communicator.close()

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in (
                *("algorithm", "arrivals_s", "segments", "transport"),
                *("timeout_s", "monitor", "link", "device"),
            )
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        _log.warning(
            "patallreduce: a State does not carry its process group; using the default group"
        )
        self.__init__(**state)  # type: ignore[misc]


def allreduce_hook(state: State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket over the ranks: for `ddp_model.register_comm_hook(state, allreduce_hook)`.

    Divides by the size of the group as DDP's default does (multiplies by its inverse before
    summing). Works inside torch's `fp16_compress_wrapper` and `bf16_compress_wrapper`.

    Args:
        state: A `State`.
        bucket: (elements,) contiguous gradients, as DDP flattens them.

    Returns:
        A future of the same tensor, averaged; or of the error, raised from `backward()`. On a GPU
        it is complete once every rank has called alike; streams that take its value wait for it.

    Raises:
        TypeError: Sparse or complex gradients, or a call by torch.compile's Python reducer.
    """
    if not isinstance(bucket, GradBucket):
        raise TypeError(
            f"expected a GradBucket, got {type(bucket).__name__}; set "
            'torch._dynamo.config.optimize_ddp = "ddp_optimizer" (the "python_reducer" of '
            "torch.compile calls hooks with single gradients)"
        )
    return state.submit(bucket)


class Handle:
    """What `register` returns: the state, what it measured, and the way to let go."""

    def __init__(self, state: State, leaves: Leaves | None = None) -> None:
        self.state = state
        self._leaves = leaves

    @property
    def leaves(self) -> Leaves:
        """This rank's leaves, to iterate over; RuntimeError if registered without."""
        if self._leaves is None:
            raise RuntimeError("expected register(..., leaves=L): this model has no leaves")
        return self._leaves

    @property
    def communicator(self) -> Communicator:
        """The communicator, shared by all models on the same process group."""
        return self.state.communicator

    def stats(self) -> list[dict[str, Any]]:
        """The last iterations of this model as plain data, oldest first.

        Each a dict: what `Iteration.to_dict` gives (per bucket: algorithm, segments, planned, and
        per rank predicted_s, arrival_s, finish_s), and over all buckets arrival_s, predicted_s and
        elapsed_s per rank, last_rank, average_elapsed_s, after_s (the latest finish - the latest
        arrival). Rank 0 knows all ranks; elsewhere the others' times are NaN, and so is what needs
        them. Empty without a monitor; `communicator.stats()` has the single collectives.
        """
        return [
            {
                **iteration.to_dict(),
                "arrival_s": iteration.arrival_s,
                "predicted_s": iteration.predicted_s,
                "elapsed_s": iteration.elapsed_s,
                "last_rank": iteration.last_rank,
                "average_elapsed_s": iteration.average_elapsed_s,
                "after_s": iteration.after_s,
            }
            for iteration in self.iterations()
        ]

    def iterations(self) -> list[Iteration]:
        """The last iterations of this model, oldest first: when who arrived, and was expected to.

        Rank 0 knows all ranks, the others only themselves; empty without a monitor.
        """
        if self.state.stream is None:
            return []
        return self.communicator.iterations(self.state.stream.number)

    def stragglers(self) -> Report:
        """Who was late, how late, since when, and whether it was predicted."""
        return straggler_report(self.iterations())

    def close(self) -> None:
        """Let go: the model can make no synchronised backward pass afterwards. Idempotent.

        The communicator closes with the last model on it.
        """
        self.state.release()


def register(
    ddp_model: DistributedDataParallel,
    *,
    algorithm: str = "auto",
    transport: str = "auto",
    arrivals_s: Sequence[float] | None = None,
    segments: int | None = None,
    reproducible: bool | None = None,
    timeout_s: float | None = None,
    monitor: bool | None = None,
    link: Link | None = None,
    leaves: int | None = None,
    leaf_seed: int | None = None,
) -> Handle:
    """Let patallreduce average the gradients of `ddp_model`.

    Collective: every rank registers, before the first backward pass.

    Args:
        ddp_model: A DistributedDataParallel, on the CPU or on one GPU.
        algorithm: One of `algorithms()`, or "auto".
        transport: "auto": UCX on the CPU, NCCL on a GPU. Others as of `Communicator`.
        arrivals_s: (ranks,) hints of when each rank's gradients are ready, seconds >= 0.
        segments: Segments per bucket; None: by rule.
        reproducible: True: algorithm "reproducible", the same bits whatever the arrivals, the
            timing and the transport, for this number of ranks. Otherwise "auto" stands for it
            while `torch.are_deterministic_algorithms_enabled()`, on all ranks alike.
        timeout_s: Deadline of every bucket, seconds; None: PATALLREDUCE_TIMEOUT_S, or 300.
        monitor: Whether to predict arrivals: layer callbacks, the progress monitor, plans. None:
            PATALLREDUCE_MONITOR, or True.
        link: Latency and bandwidth between ranks, equal on all ranks; None: measured at once.
        leaves: L, for gradients with the same bits on any number of ranks: a global batch is L
            leaves, to be gone through by `for leaf in handle.leaves`; see `hooks.Leaves`. The
            schedule is then fixed, and nothing is predicted. On the CPU only.
        leaf_seed: Seeds torch's random numbers at the start of every leaf.

    Raises:
        TypeError: not a DistributedDataParallel; parameters that are sparse or complex, on several
            devices or on one that is neither CPU nor CUDA.
        CudaError: there are no kernels for the GPU.
        RuntimeError: it has a hook already.
        ScheduleError, ValueError: a bad algorithm, hint or segment count.
        TransportError, TransportTimeout: the ranks cannot reach each other.
    """
    if not isinstance(ddp_model, DistributedDataParallel):
        raise TypeError(
            f"expected a DistributedDataParallel, got {type(ddp_model).__name__}: "
            "register(DistributedDataParallel(module))"
        )
    if reproducible:
        if algorithm not in ("auto", REPRODUCIBLE):
            raise ValueError(
                f"reproducible: expected algorithm 'auto' or {REPRODUCIBLE!r} with it, "
                f"got {algorithm!r}"
            )
        algorithm = REPRODUCIBLE
    if leaves is not None and (
        algorithm not in ("auto", REPRODUCIBLE) or arrivals_s is not None or segments is not None
    ):
        raise ValueError(
            "leaves: expected no algorithm, arrivals_s or segments with it: its schedule is fixed"
        )
    device = _device_of(ddp_model)
    if leaves is not None and device.type != "cpu":
        raise TypeError(f"leaves: expected a model on the CPU, got one on {device}")
    state = State(
        ddp_model.process_group,
        algorithm=algorithm,
        arrivals_s=arrivals_s,
        segments=segments,
        transport=transport,
        timeout_s=timeout_s,
        monitor=monitor if leaves is None else False,
        link=link,
        device=device,
    )
    try:
        if leaves is not None:
            dealt = Leaves(ddp_model, leaves, state.communicator, leaf_seed)
            ddp_model.register_comm_hook(dealt, leaves_hook)
            return Handle(state, dealt)
        ddp_model.register_comm_hook(state, allreduce_hook)
        if state.stream is not None:
            state.layers = Layers(ddp_model, state.stream)
    except BaseException:
        state.release()
        raise
    return Handle(state)


def _device_of(ddp_model: DistributedDataParallel) -> torch.device:
    """Where the gradients will be."""
    device = None
    for name, parameter in ddp_model.module.named_parameters():
        if not parameter.requires_grad:
            continue
        expected = device or "the CPU or a GPU"
        device = device or parameter.device
        if (
            parameter.is_complex()
            or parameter.device.type not in ("cpu", "cuda")
            or parameter.device != device
        ):
            raise TypeError(
                f"parameter {name}: expected a real tensor on {expected}, got {parameter.dtype} "
                f"on {parameter.device}"
            )
    return device or torch.device("cpu")


def _communicator(
    process_group: dist.ProcessGroup | None,
    transport: str,
    timeout_s: float | None,
    monitor: bool | None,
    link: Link | None,
) -> Communicator:
    key = (process_group or dist.group.WORLD, transport, timeout_s, monitor, link)
    communicator = _shared.get(key)
    if communicator is None or not communicator.usable:
        communicator = Communicator(process_group, transport, timeout_s, link=link, monitor=monitor)
        _shared[key] = communicator
    return communicator
