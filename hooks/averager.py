"""One model's averaging over a communicator: made by all ranks together, then released."""

import threading
import weakref

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.settler import Arguments
from patallreduce.hooks.backward import Backward
from patallreduce.hooks.layers import Layers
from patallreduce.hooks.leaves import Leaves
from patallreduce.hooks.straggler_log import watch

_users: "weakref.WeakKeyDictionary[Communicator, int]" = weakref.WeakKeyDictionary()


class Averager:
    """Averages the buckets of one model until `release`, or until it is collected.

    The last averager that uses a communicator closes it.

    Args:
        communicator: Of the model's process group; other models may use it, too.
        device: The model's, None for the processor.
        ddp_model: The model; None: not known. It is not kept alive.
    """

    def __init__(
        self,
        communicator: Communicator,
        device: torch.device | None,
        ddp_model: DistributedDataParallel | None,
    ) -> None:
        self.communicator = communicator
        self.loop = communicator.session.new_loop(device)
        self.backward = Backward(communicator.session, ddp_model)
        self.layers: Layers | None = None
        self.leaves: Leaves | None = None  # then they take the buckets
        self._model = None if ddp_model is None else weakref.ref(ddp_model)
        self._group = None if ddp_model is None else ddp_model.process_group
        _users[communicator] = _users.get(communicator, 0) + 1
        ended = None
        if self.loop is not None and communicator.rank == 0:  # which knows all ranks
            ended = watch(communicator, self.loop.number)
        self._leave = weakref.finalize(self, _leave, communicator, ended)
        self._leave.atexit = False  # sessions close themselves

    @property
    def ended(self) -> bool:
        """Whether it was released, its communicator failed or closed, or its model's group left."""
        usable = self._leave.alive and self.communicator.usable
        return not usable or self._group_changed()

    def submit(self, bucket: GradBucket, asked: Arguments) -> torch.futures.Future[torch.Tensor]:
        """Start the average of a bucket.

        Args:
            bucket: As DDP gives it.
            asked: Its operation, algorithm, hints, and segments as for a large bucket.
        """
        if self._group_changed():
            raise RuntimeError(
                "the model's process group was changed (_update_process_group): "
                "register(ddp_model) again, on all ranks of the new one"
            )
        if self.leaves is not None:
            return self.leaves.submit(bucket)
        tensor, index, is_last = bucket.buffer(), bucket.index(), bucket.is_last()
        arrivals_s = None
        if self.layers is not None:
            arrivals_s = self.layers.bucket(index, bucket.parameters(), is_last)
        segments = asked.segments
        if segments is not None:
            segments = min(segments, max(tensor.numel(), 1))  # a bucket can be tiny
        alone = index == 0 and is_last
        asked = asked._replace(segments=segments, label=index, beside_others=not alone)
        with self.backward.ends_whole():
            work = self.communicator.session.run(
                tensor, asked, loop=self.loop, ends_iteration=is_last, arrivals_s=arrivals_s
            )
        self.backward.add(work, first=index == 0, last=is_last)
        return work.get_future()

    def release(self) -> None:
        """Leave the communicator. Idempotent. A failed pass goes on being told to the model."""
        if self.layers is not None:
            self.layers.remove()
        self._leave()

    def remove(self) -> None:
        """Release, and leave no hook behind on the model: another one takes over. Idempotent."""
        self.release()
        self.backward.remove()
        if self.leaves is not None:
            self.leaves.remove()

    def _group_changed(self) -> bool:
        model = None if self._model is None else self._model()
        return model is not None and model.process_group is not self._group


def _leave(communicator: Communicator, watching: threading.Event | None) -> None:
    if watching is not None:
        watching.set()
    _users[communicator] -= 1
    if _users[communicator] <= 0:
        communicator.close()
