"""What the communication hook is registered with: settings, and who averages with them.

DDP takes one hook, for good. So hook and state stay, and the state can be given another averager.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from patallreduce.arguments import numbers, whole
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.settler import Arguments
from patallreduce.hooks.averager import Averager
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network

_log = logging.getLogger("patallreduce")

# Models on one process group with equal settings share one communicator.
_shared: weakref.WeakValueDictionary[tuple[Any, ...], Communicator] = weakref.WeakValueDictionary()


class State:
    """What `allreduce_hook` needs of one model; plain data apart from its averager.

    Ranks meet in the first bucket: collective over the process group, as making a `Communicator`
    is. Before that no process group is needed.

    Args:
        process_group: The group that DDP was given; None for the default one.
        algorithm: One of `algorithms()`, or "auto".
        arrivals_s: (ranks,) hints of when each rank's gradients are ready, seconds >= 0; equal on
            all ranks. They order slt and prr; a wrong hint costs time only.
        segments: Segments per bucket; None: by rule.
        transport: As of `Communicator`.
        timeout_s: Deadline of every bucket, seconds; None: PATALLREDUCE_TIMEOUT_S, or 300.
        monitor: Whether to predict arrivals; None: PATALLREDUCE_MONITOR, or True.
        link: Latency and bandwidth between ranks, or the network that
            :func:`patallreduce.calibrate` gave, equal on all ranks; None: measured at once.
        device: The model's; None: that of the first bucket.
        ddp_model: The model, if its gradients are to be None after a failure.

    It pickles without its process group and communicator, and takes the default group when it is
    loaded, with a warning, as torch's PowerSGDState does.
    """

    __slots__ = (
        "__weakref__",
        "_model",
        "algorithm",
        "arrivals_s",
        "averager",
        "device",
        "link",
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
        link: Link | Network | None = None,
        device: torch.device | None = None,
        ddp_model: DistributedDataParallel | None = None,
    ) -> None:
        self.process_group = process_group
        self.algorithm = algorithm
        self.arrivals_s = None if arrivals_s is None else numbers("arrivals_s", arrivals_s)
        self.segments = None if segments is None else whole("segments", segments)
        self.transport = transport
        self.timeout_s = timeout_s
        self.monitor = monitor
        self.link = link
        self.device = device
        self._model = None if ddp_model is None else weakref.ref(ddp_model)
        self.averager: Averager | None = None

    def meet(self) -> Averager:
        """The averager; collective the first time.

        Raises:
            ScheduleError, ValueError: a bad algorithm, hint, segment count or deadline.
            TransportError, TransportTimeout: the ranks cannot reach each other.
        """
        if self.averager is None:
            communicator = self._communicator()
            averager = Averager(communicator, self.device, self.model)
            try:
                # A bad hint, name or segment count is told at once, whatever the bucket's size.
                probe = torch.empty(max(self.segments or 1, 1))
                communicator.session.settle(probe, self._asked())
            except BaseException:
                averager.release()
                raise
            self.averager = averager
        return self.averager

    @property
    def communicator(self) -> Communicator:
        """The communicator; collective the first time, as `meet`."""
        return self.meet().communicator

    def submit(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the average of a bucket."""
        if self.device is None:
            self.device = bucket.buffer().device
        return self.meet().submit(bucket, self._asked())

    def release(self) -> None:
        """Release the communicator; the last state that uses it closes it. Idempotent."""
        if self.averager is not None:
            self.averager.release()

    def become(self, other: State) -> None:
        """Take over settings and averager of another state, for the model that holds this one."""
        if self.averager is not None:
            self.averager.remove()
        for name in _FIELDS:
            setattr(self, name, getattr(other, name))

    @property
    def in_use(self) -> bool:
        """Whether the ranks have met, and it has not ended since."""
        return self.averager is not None and not self.averager.ended

    @property
    def failed(self) -> bool:
        """Whether a backward pass of this rank has raised what the communicator failed with."""
        return self.averager is not None and self.averager.backward.failed

    def is_of(self, process_group: dist.ProcessGroup | None) -> bool:
        """Whether this is its group; None: the default one."""
        return _group(self.process_group) is _group(process_group)

    @property
    def model(self) -> DistributedDataParallel | None:
        """The model, if it was given and is still there."""
        return None if self._model is None else self._model()

    def _asked(self) -> Arguments:
        return Arguments("avg", self.algorithm, self.segments, self.arrivals_s)

    def _communicator(self) -> Communicator:
        settings = (self.transport, self.timeout_s, self.monitor, self.link)
        key = (_group(self.process_group), *settings)
        communicator = _shared.get(key)
        if communicator is None or not communicator.usable:
            communicator = Communicator(
                self.process_group,
                self.transport,
                self.timeout_s,
                link=self.link,
                monitor=self.monitor,
            )
            _shared[key] = communicator
        return communicator

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


_FIELDS = [name for name in State.__slots__ if name != "__weakref__"]


def _group(process_group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    return process_group or dist.group.WORLD
