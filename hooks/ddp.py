"""The communication hook: DDP hands over a bucket, and gets a future of its average.

The hook never waits. It checks the bucket, settles algorithm and segments (the same on every rank,
from the bucket's size, the link and the hints), gives it to the engine and returns the future.
Nothing is remembered of a bucket, so DDP may rebuild its buckets at any time.

No postponed annotations here: DDP compares the annotations of a hook with the classes themselves.
"""

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.settler import Arguments
from patallreduce.hooks.backward import Backward
from patallreduce.hooks.layers import Layers
from patallreduce.pricing.link import Link

_log = logging.getLogger("patallreduce")

# Models on one process group with equal settings share one communicator.
_shared: "weakref.WeakValueDictionary[tuple[Any, ...], Communicator]" = (
    weakref.WeakValueDictionary()
)
_users: "weakref.WeakKeyDictionary[Communicator, int]" = weakref.WeakKeyDictionary()


class State:
    """What `allreduce_hook` needs of one model; plain data apart from its communicator.

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
        ddp_model: The model, if its gradients are to be None after a failure.

    It pickles without its communicator, and makes one on the default group when it is loaded, with
    a warning, as torch's PowerSGDState does.
    """

    __slots__ = (
        "_released",
        "algorithm",
        "arrivals_s",
        "backward",
        "communicator",
        "device",
        "layers",
        "link",
        "loop",
        "monitor",
        "process_group",
        "segments",
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
        ddp_model: DistributedDataParallel | None = None,
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
        self.loop = self.communicator.session.new_loop(device)
        self.backward = Backward(self.communicator.session, ddp_model)
        self.layers: Layers | None = None
        # A bad hint, name or segment count should not wait for the first backward.
        probe = torch.empty(max(segments or 1, 1))
        asked = Arguments("avg", algorithm, segments, self.arrivals_s)
        self.communicator.session.settle(probe, asked)
        self._released = False
        _users[self.communicator] = _users.get(self.communicator, 0) + 1

    def submit(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the average of a bucket."""
        tensor, index, is_last = bucket.buffer(), bucket.index(), bucket.is_last()
        arrivals_s = None
        if self.layers is not None:
            arrivals_s = self.layers.bucket(index, bucket.parameters(), is_last)
        segments = self.segments
        if segments is not None:
            segments = min(segments, max(tensor.numel(), 1))  # a bucket can be tiny
        alone = index == 0 and is_last
        asked = Arguments(
            "avg", self.algorithm, segments, self.arrivals_s, label=index, beside_others=not alone
        )
        with self.backward.ends_whole():
            work = self.communicator.session.run(
                tensor, asked, loop=self.loop, ends_iteration=is_last, arrivals_s=arrivals_s
            )
        self.backward.add(work, first=index == 0, last=is_last)
        return work.get_future()

    def release(self) -> None:
        """Release the communicator; the last state that uses it closes it. Idempotent."""
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
        A future of the same tensor, averaged; `backward()` raises what it failed with. On a GPU
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
