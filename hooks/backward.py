"""The end of a backward pass: where its buckets are waited for, and what is left of one that fails.

DDP waits for its buckets in native code: a signal's handler, as of Ctrl-C, would only run after
that wait, and an error would come out as a RuntimeError. So a callback of autograd, queued in the
hook of the last bucket and thereby before DDP's own, waits for them first, in Python:

    hook of the last bucket   queues the callback
    autograd                  the gradients are all there; callbacks run in order
    the callback              waits; a signal's exception, or an error of any bucket, ends backward
    DDP's callback            finds every future complete

After a failure no gradient of the model is left, so that no optimizer can take a step with some of
them averaged and others not.
"""

import contextlib
import weakref
from collections.abc import Iterator
from typing import Protocol

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from patallreduce.communicator.session import Session
from patallreduce.hooks.callbacks import ModuleCallback


class Waitable(Protocol):
    """One bucket's collective under way."""

    def wait(self) -> None:
        """Return once the result is there, or raise; on the main thread signals are handled."""


class Backward:
    """The backward passes of one model, one after the other.

    Args:
        session: Whose collectives they wait for.
        ddp_model: The model; None: after a failure its gradients are left as they are.
    """

    def __init__(self, session: Session, ddp_model: DistributedDataParallel | None = None) -> None:
        self._session = session
        self._model = None if ddp_model is None else weakref.ref(ddp_model)
        self._under_way: list[Waitable] = []
        self._refusal: RemovableHandle | None = None
        self.failed = False  # a pass has raised here what ended the communicator

    def add(self, work: Waitable, *, first: bool, last: bool) -> None:
        """A bucket was started: the first, the last, one of this pass."""
        if first:  # a pass that failed may have left some
            self._under_way.clear()
        self._under_way.append(work)
        # Join's shadow of a backward pass is none of autograd's; it waits by itself.
        if last and torch._C._current_graph_task_id() >= 0:
            torch.autograd.Variable._execution_engine.queue_callback(self._wait)

    def _wait(self) -> None:
        works, self._under_way = self._under_way, []
        with self.ends_whole():
            for work in works:
                work.wait()

    @contextlib.contextmanager
    def ends_whole(self) -> Iterator[None]:
        """Leave no gradients behind where what is done inside ends the communicator."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal's: the other ranks must not wait
                self._session.abort(f"interrupted by {type(error).__name__}")
            if not self._session.usable:
                self.failed = True
                self._discard()
            raise

    def _discard(self) -> None:
        model = None if self._model is None else self._model()
        if model is None:
            return
        for parameter in model.parameters():
            parameter.grad = None
        if self._refusal is None:  # DDP would blame unused parameters
            self._refusal = model.register_forward_pre_hook(ModuleCallback(self._refuse))

    def remove(self) -> None:
        """Let the model's forward passes go on after a failure. Idempotent."""
        if self._refusal is not None:
            self._refusal.remove()

    def _refuse(self, ddp_model: DistributedDataParallel) -> None:
        """Raise what the communicator failed with, unless nothing is to be averaged."""
        training = ddp_model.module.training and torch.is_grad_enabled()
        if training and ddp_model.require_backward_grad_sync:
            self._session.check_usable()
