"""Layer callbacks: how far an iteration of a DDP model is, and when each bucket was really ready.

    iteration   [ forward 1/3 ][          backward 2/3          ]
                ^start        ^1/3     ^1/2     ^2/3     ^5/6    the labels of `edge`

A pre-hook and a hook on the DDP module see the forward pass; hooks on parameters see backward
(`gradients.py`: on all parameters at first, then on few). An edge is reported when a quarter, a
half, three quarters of as many gradients are ready as the iteration before had in all.
Gradients are counted, not weighted by their elements: large parameters are not the slow ones
(the last layer of a convolutional network has most elements and little to compute). A label only
says "as far as under this label before"; the predictor learns how much time lies before each.

DDP starts buckets in index order, so a bucket can be ready long before its hook is called. Its
arrival is the time of the last of its gradients.

What does not count as an iteration's computation:

- `model.eval()` or `torch.no_grad()`: such a pass reports nothing (a backward pass after
  `model.eval()` still gives arrivals). The mode is the inner module's, `ddp_model.module.training`:
  frameworks that validate with the inner module leave the wrapper's at False (Lightning does).
- `no_sync()`: `start` is reported in the first forward pass after the last bucket, whether that
  pass accumulates or not, edges only in the pass that synchronises. So an iteration has one start,
  and another one only after a forward pass that raised.
- A second backward pass through the same forward pass: DDP does not reduce its gradients, so
  nothing is reported.

Copies and pickles of the model carry no callbacks, as they carry no communication hook.
torch.compile(ddp_model) breaks its graph at the two hooks of the module, as it does within DDP's
own forward; submodules compile as without these hooks, and their gradients are all ready at once,
at their end. DDP's Python reducer has no buckets: `Layers` then removes itself, with a warning.
Times are the host's: at that time gradients on an accelerator are queued, not computed.

Cost per iteration, in processor time (benchmarks/layers.py, medians, once few are watched): 20 us
with 10 parameters, 24 us with 100, 390 us with 1,000, 1,427 us with 3,000, beside 10 to 15 us for
each parameter that autograd and DDP themselves take.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from patallreduce.hooks.callbacks import ModuleCallback
from patallreduce.hooks.gradients import Gradients
from patallreduce.records.iterations import FORWARD

_log = logging.getLogger("patallreduce")


class Progress(Protocol):
    """What `Layers` tells. Times are seconds of `time.monotonic()`; both calls return at once."""

    def start(self, at_s: float) -> None:
        """An iteration's computation began."""

    def edge(self, fraction: float, at_s: float) -> None:
        """The label 0 < fraction < 1 was reached; labels rise within an iteration."""


class Layers:
    """Tells `progress` how far each iteration of `ddp_model` is, until `remove`.

    The model holds its `Layers`, not the other way round. Should `progress` ever raise, that is
    logged once and the callbacks are removed: training goes on.

    Args:
        ddp_model: A DistributedDataParallel; not the result of `torch.compile`, which uses it.
        progress: What is told, on the thread that runs the model, of backward on autograd's.

    Raises:
        TypeError: not a DistributedDataParallel.
    """

    def __init__(self, ddp_model: DistributedDataParallel, progress: Progress) -> None:
        if not isinstance(ddp_model, DistributedDataParallel):
            raise TypeError(
                f"expected a DistributedDataParallel, got {type(ddp_model).__name__}: "
                "Layers(ddp_model), before torch.compile(ddp_model)"
            )
        self._progress = progress
        self._handles: list[RemovableHandle] = []
        self._attached = True
        self._arrivals_s: list[float] = []
        self._began = False
        self._inside_forward = False
        self._forward_edge_due = False
        self._edges_reported = 0

        watched = []
        without_buckets = getattr(ddp_model, "_use_python_reducer", False)
        if not without_buckets:
            ignored = ddp_model.parameters_to_ignore
            for name, parameter in ddp_model.module.named_parameters():
                if parameter.requires_grad and name not in ignored:
                    watched.append(parameter)
        self._gradients = Gradients(watched, self._backward_edge)
        if without_buckets:
            _log.warning(
                "patallreduce: no progress of this model's layers is reported: with "
                'torch._dynamo.config.optimize_ddp = "python_reducer" there are no buckets'
            )
            self.remove()
            return
        self._handles += [
            ddp_model.register_forward_pre_hook(ModuleCallback(self._before_forward)),
            ddp_model.register_forward_hook(ModuleCallback(self._after_forward)),
        ]

    def remove(self) -> None:
        """Leave no hook behind; `bucket` then gives the times of its calls. Idempotent."""
        self._attached = False
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._gradients.remove()

    def bucket(
        self, index: int, parameters: Sequence[torch.Tensor], is_last: bool
    ) -> tuple[float, ...] | None:
        """Note a bucket; the communication hook begins with this call, in order of index.

        Args:
            index: Of the bucket.
            parameters: Its parameters.
            is_last: Whether it ends the iteration.

        Returns:
            For the last bucket the arrival of each, by index, seconds of `time.monotonic()`; else
            None. The arrival is the time of this call where a parameter has no gradient of its
            own: because it was not used, or because Join gives zeros for a rank that is done.
        """
        now_s = time.monotonic()
        if index == 0:  # an iteration that failed may have left some
            self._arrivals_s.clear()
        while len(self._arrivals_s) < index:
            self._arrivals_s.append(now_s)
        self._arrivals_s.append(self._gradients.arrival_s(index, parameters, now_s))
        if not is_last:
            return None
        arrivals_s = tuple(self._arrivals_s)
        self._arrivals_s.clear()
        self._gradients.end(len(arrivals_s))
        self._began = self._inside_forward = False
        return arrivals_s

    def _before_forward(self, ddp_model: DistributedDataParallel) -> None:
        self._gradients.renew()
        if not (ddp_model.module.training and torch.is_grad_enabled()):
            return
        now_s = time.monotonic()
        self._gradients.forget()
        if not self._began or self._inside_forward:  # still inside: the last pass raised
            self._began = self._forward_edge_due = True
            self._edges_reported = 0
            self._tell(self._progress.start, now_s)
        self._inside_forward = True
        if ddp_model.require_backward_grad_sync:
            self._gradients.await_edge(self._edges_reported)

    def _after_forward(self, ddp_model: DistributedDataParallel) -> None:
        # As in `_before_forward`: an evaluation may run within an iteration.
        if not (ddp_model.module.training and torch.is_grad_enabled()):
            return
        self._inside_forward = False
        if self._forward_edge_due and ddp_model.require_backward_grad_sync:
            self._forward_edge_due = False
            self._tell(self._progress.edge, FORWARD, time.monotonic())

    def _backward_edge(self) -> None:
        _, part = self._gradients.edges[self._edges_reported]
        self._edges_reported += 1
        self._tell(self._progress.edge, FORWARD + part * (1 - FORWARD), time.monotonic())
        self._gradients.await_edge(self._edges_reported)

    def _tell(self, call: Callable[..., None], *arguments: float) -> None:
        try:
            call(*arguments)
        except Exception:
            if self._attached:
                _log.warning(
                    "patallreduce: no more progress of this model's layers is reported, as the "
                    "callback failed; training goes on",
                    exc_info=True,
                )
            self.remove()
