"""`register`: patallreduce averages a model's gradients until `Handle.close`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from patallreduce.arguments import flag
from patallreduce.communicator.calls import REPRODUCIBLE
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.rendezvous import mistakes_told
from patallreduce.hooks.averager import Averager
from patallreduce.hooks.ddp import allreduce_hook
from patallreduce.hooks.holding import ddp_of, held_state, let_go_on
from patallreduce.hooks.layers import Layers
from patallreduce.hooks.leaves import Leaves
from patallreduce.hooks.state import State
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network
from patallreduce.records.iterations import Iteration
from patallreduce.records.paces import overhead_s
from patallreduce.records.straggler_report import Report
from patallreduce.records.stragglers import straggler_report


class Handle:
    """What `register` returns: the model's state, what was measured, and `close`."""

    def __init__(self, state: State, averager: Averager) -> None:
        self.state = state
        self._averager = averager

    @property
    def leaves(self) -> Leaves:
        """This rank's leaves, to iterate over; RuntimeError if registered without."""
        if self._averager.leaves is None:
            raise RuntimeError("expected register(..., leaves=L): this model has no leaves")
        return self._averager.leaves

    @property
    def communicator(self) -> Communicator:
        """The communicator, shared by all models on the same process group."""
        return self._averager.communicator

    def stats(self) -> list[dict[str, Any]]:
        """The last iterations of this model as plain data, oldest first.

        Each a dict: what `Iteration.to_dict` gives (per bucket: algorithm, segments, planned, and
        per rank predicted_s, arrival_s, finish_s), and over all buckets arrival_s, predicted_s and
        elapsed_s per rank, last_rank, average_elapsed_s, after_s (the latest finish - the latest
        arrival), overhead_s (the time since the iteration before ended, less what the rank
        computed that arrived last). Rank 0 knows all ranks; elsewhere the others' times are NaN,
        and so is what needs them. Empty without a monitor; `communicator.stats()` has the single
        collectives.
        """
        iterations = self.iterations()
        return [
            {
                **iteration.to_dict(),
                "arrival_s": iteration.arrival_s,
                "predicted_s": iteration.predicted_s,
                "elapsed_s": iteration.elapsed_s,
                "last_rank": iteration.last_rank,
                "average_elapsed_s": iteration.average_elapsed_s,
                "after_s": iteration.after_s,
                "overhead_s": math.nan if before is None else overhead_s(before, iteration),
            }
            for before, iteration in zip([None, *iterations], iterations, strict=False)
        ]

    def iterations(self) -> list[Iteration]:
        """The last iterations of this model, oldest first: when who arrived, and was expected to.

        Rank 0 knows all ranks, the others only themselves; empty without a monitor.
        """
        loop = self._averager.loop
        return [] if loop is None else self.communicator.iterations(loop.number)

    def stragglers(self) -> Report:
        """Who was late, how late, since when, why, whether it was predicted, and what plans win."""
        return straggler_report(self.iterations())

    def pace(self) -> dict[str, dict[str, float]] | None:
        """What plans win: this model's iterations with them and without, as measured.

        {"planned": ..., "plain": ...}, each a dict: iterations (how many were measured),
        iteration_s (seconds), overhead_s (without what the rank computed that arrived last); means
        in which the newest ones count most, of the present regime: as many ranks late by as much.
        Rank 0 knows; None elsewhere, without a monitor, and before the first plan.
        """
        monitor, loop = self.communicator.session.monitor, self._averager.loop
        return None if monitor is None or loop is None else monitor.pace(loop.number)

    def close(self) -> None:
        """Release the communicator: synchronised backward passes fail afterwards. Idempotent.

        The communicator closes with the last model on it. `register` can be called again.
        """
        self._averager.release()


def register(
    ddp_model: nn.Module,
    *,
    algorithm: str = "auto",
    transport: str = "auto",
    arrivals_s: Sequence[float] | None = None,
    segments: int | None = None,
    reproducible: bool | None = None,
    timeout_s: float | None = None,
    monitor: bool | None = None,
    link: Link | Network | None = None,
    leaves: int | None = None,
    leaf_seed: int | None = None,
) -> Handle:
    """Let patallreduce average the gradients of `ddp_model`.

    Collective: every rank registers, before the first backward pass. The same model can be
    registered again, on all ranks, once its handle is closed, its communicator has failed, or its
    process group was changed (`_update_process_group`): DDP then forgets a backward pass that
    failed, and rebuilds its buckets.

    Args:
        ddp_model: A DistributedDataParallel, on the CPU or on one GPU, or a module with one inside,
            as torch.compile and frameworks make.
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
        link: Latency and bandwidth between ranks, or the network that
            :func:`patallreduce.calibrate` gave, equal on all ranks; None: measured at once.
        leaves: L, for gradients with the same bits on any number of ranks: a global batch is L
            leaves, to be gone through by `for leaf in handle.leaves`; see `hooks.Leaves`. The
            schedule is then fixed, and nothing is predicted. On the CPU only.
        leaf_seed: Seeds torch's random numbers at the start of every leaf.

    Raises:
        TypeError: no DistributedDataParallel, or several; parameters that are sparse or complex, on
            several devices or on one that is neither CPU nor CUDA.
        CudaError: there are no kernels for the GPU.
        RuntimeError: the model has another hook already, or this one, in use.
        ScheduleError, ValueError: a bad algorithm, hint or segment count.
        TransportError, TransportTimeout: the ranks cannot reach each other.
    """
    ddp_model = ddp_of(ddp_model)
    with mistakes_told(ddp_model.process_group):
        if reproducible is not None and flag("reproducible", reproducible):
            if algorithm not in ("auto", REPRODUCIBLE):
                raise ValueError(
                    f"reproducible: expected algorithm 'auto' or {REPRODUCIBLE!r} with it, "
                    f"got {algorithm!r}"
                )
            algorithm = REPRODUCIBLE
        if leaves is not None and (
            algorithm not in ("auto", REPRODUCIBLE)
            or arrivals_s is not None
            or segments is not None
        ):
            raise ValueError(
                "leaves: expected no algorithm, arrivals_s or segments with it: "
                "its schedule is fixed"
            )
        device = _device_of(ddp_model)
        if leaves is not None and device.type != "cpu":
            raise TypeError(f"leaves: expected a model on the CPU, got one on {device}")
        held = held_state(ddp_model)
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
            ddp_model=ddp_model,
        )
    averager = state.meet()
    try:
        if leaves is not None:
            averager.leaves = Leaves(ddp_model, leaves, averager.communicator, leaf_seed)
        elif averager.loop is not None:
            averager.layers = Layers(ddp_model, averager.loop)
        if held is None:
            ddp_model.register_comm_hook(state, allreduce_hook)
        else:
            held.become(state)
            let_go_on(ddp_model)
    except BaseException:
        averager.remove()
        raise
    return Handle(held or state, averager)


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
