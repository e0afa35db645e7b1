"""An iteration as scalars for TensorBoard, or for anything else with its `add_scalar`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from patallreduce.records.iterations import Iteration


class Writer(Protocol):
    """What is needed of a `torch.utils.tensorboard.SummaryWriter`."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Note that the scalar of this name had this value at that step."""
        ...


def add_scalars(
    writer: Writer,
    iteration: Iteration,
    global_step: int | None = None,
    *,
    prefix: str = "patallreduce",
) -> None:
    """Add an iteration's measures, in seconds; those that are unknown are left out.

    Cost: P + 4 calls of ``writer.add_scalar``. Call it on rank 0, the leader: it alone knows all.

    Args:
        writer: A `SummaryWriter`, or like one.
        iteration: From the monitor or a file.
        global_step: The step to add it at. Default: the iteration's number.
        prefix: What the names begin with.
    """
    step = iteration.iteration if global_step is None else global_step
    for name, value in _scalars(iteration):
        if not math.isnan(value):
            writer.add_scalar(f"{prefix}/{name}", value, step)


def _scalars(iteration: Iteration) -> Iterator[tuple[str, float]]:
    for rank, lateness_s in enumerate(iteration.lateness_s):
        yield f"lateness_s/rank_{rank}", lateness_s
    yield "after_s", iteration.after_s
    yield "average_elapsed_s", iteration.average_elapsed_s
    errors_s = [abs(error_s) for error_s in iteration.prediction_error_s]
    yield "prediction_error_s/mean", sum(errors_s) / len(errors_s) if errors_s else math.nan
    last = iteration.last_rank
    if last is not None:
        yield "prediction_error_s/last_rank", errors_s[last]
