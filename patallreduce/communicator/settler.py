"""From the arguments of a collective to the call that the engine runs, remembered by arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from patallreduce import _core
from patallreduce.arguments import number, numbers, refused, whole
from patallreduce.communicator.calls import (
    REPRODUCIBLE,
    Request,
    by_rule,
    intended,
    left_open,
    settle,
)
from patallreduce.communicator.given import GivenSchedules
from patallreduce.communicator.link_meter import LinkMeter
from patallreduce.communicator.tensors import check_tensor, dtype_of
from patallreduce.communicator.tuned import tuning_for
from patallreduce.decisions.rules import TuningFile
from patallreduce.pricing.link import Link
from patallreduce.pricing.selection import cheapest

_PRICED = {"reduce", "broadcast", "all_gather", "reduce_scatter"}
_CALLS_KEPT = 1024
# A plan costs a few messages: it may pay where the message takes this long from rank to rank.
_WORTH_PLANNING_S = 2e-3
_MOST_WAIT = 0.01  # for a plan that takes long to work out, of an iteration


class Arguments(NamedTuple):
    """What is asked of a collective, beside its tensor; see `Communicator.all_reduce`."""

    op: str = "sum"
    algorithm: str | None = None  # None: the collective's usual one
    segments: int | None = None
    arrivals_s: Sequence[float] | None = None
    segment_time_s: float | None = None
    label: int = -1  # a bucket's index, -1 outside DDP
    collective: str = "all_reduce"
    root: int | None = None  # of a reduce or broadcast; None: 0
    beside_others: bool = False  # of its kind, in flight; equal on all ranks
    schedule: _core.Schedule | None = None  # in place of an algorithm


def _seconds(name: str, value: Any, rank: int) -> float:
    seconds = number(name, value, rank)
    if not 0 <= seconds < float("inf"):
        raise _core.ScheduleError(refused(name, "seconds >= 0", value, rank))
    return seconds


_CHECKS: dict[str, Callable[[str, Any, int], Any]] = {
    "segments": whole,
    "arrivals_s": lambda name, value, rank: tuple(numbers(name, value, rank)),
    "segment_time_s": _seconds,
    "root": whole,
}


def _typed(asked: Arguments, rank: int) -> Arguments:
    """The same in the types that it says; TypeError for what cannot be."""
    if not isinstance(asked.algorithm, str | None):
        raise TypeError(refused("algorithm", "a name", asked.algorithm, rank))
    changed = {
        name: check(name, value, rank)
        for name, check in _CHECKS.items()
        if (value := getattr(asked, name)) is not None
    }
    return asked._replace(**changed) if changed else asked


class Settled(NamedTuple):
    """What is to run, the same on every rank.

    Args:
        call: As it runs without a plan.
        may_plan: Whether it is an all-reduce left to prediction, and a plan may pay.
    """

    call: _core.Call
    may_plan: bool


class Settler:
    """Settles what arguments leave open: the same on every rank.

    Args:
        engine: The communicator's.
        meter: Measures the link when it is first needed, unless it is given.
        rank: This rank.
        ranks: P.
        nodes: (P,) the node of each rank; (): no two share one.
        link: Latency and bandwidth between ranks (of different nodes), if they are known.
        monitor: Is told the link, for its plans; None: there are no plans.
        tuning: What was measured of such machines; None: nothing, the model decides.
    """

    def __init__(
        self,
        engine: _core.Engine,
        meter: LinkMeter,
        rank: int,
        ranks: int,
        nodes: Sequence[int] = (),
        *,
        link: Link | None,
        monitor: _core.Monitor | None,
        tuning: TuningFile | None = None,
    ) -> None:
        self._meter = meter
        self._rank = rank
        self._ranks = ranks
        self._nodes = list(nodes)
        self._link = link
        self._monitor = monitor
        self._monitor_can_choose = False
        self._tuning = tuning if link is None else tuning_for(tuning, link, rank)
        self._selector: _core.Selector | None = None
        self._cheapest: dict[tuple[str, int], str] = {}  # by collective and size class
        self._given = GivenSchedules(engine)
        self._settled: dict[tuple[int, torch.dtype, Arguments], Settled] = {}
        self._warned_of_flushing = False

    @property
    def link(self) -> Link:
        """Latency and bandwidth between ranks. Collective the first time, unless it was given."""
        if self._link is None:
            self._link = self._meter.measure(torch.float32)
            self._tuning = tuning_for(self._tuning, self._link, self._rank)
        if self._monitor is not None and not self._monitor_can_choose:
            self._monitor_can_choose = True
            planner = _core.Planner(
                self._ranks,
                self._link,
                node_of=self._nodes,
                most_wait=_MOST_WAIT,
                alone=self.rules("all_reduce"),
                beside_others=self.rules("all_reduce", beside_others=True),
            )
            self._monitor.set_planner(planner, 1 / self._link.bytes_per_s)
        return self._link

    @property
    def selector(self) -> _core.Selector:
        """Prices the algorithms on this link. Collective the first time, as `link`."""
        if self._selector is None:
            self._selector = _core.Selector(
                self._ranks,
                self.link,
                self._nodes,
                alone=self.rules("all_reduce"),
                beside_others=self.rules("all_reduce", beside_others=True),
            )
        return self._selector

    def rules(self, collective: str, *, beside_others: bool = False) -> _core.Rules:
        """What was measured of a collective among these ranks. Collective the first time."""
        if self._tuning is not None and self._link is None:
            _ = self.link  # of another link the rules are left aside
        if self._tuning is None:
            return _core.Rules()
        nodes = len(set(self._nodes)) or self._ranks
        return self._tuning.rules_for(collective, self._ranks, nodes, beside_others=beside_others)

    def settle(self, tensor: torch.Tensor, asked: Arguments) -> Settled:
        """Check tensor and arguments and settle what they leave open.

        Raises:
            TypeError, ValueError, ScheduleError: what `Communicator.all_reduce` says.
        """
        check_tensor(tensor, self._rank)
        asked = _typed(asked, self._rank)
        if asked.schedule is None and asked.collective == "all_reduce":
            algorithm = intended(asked.algorithm or "auto")
            if algorithm != asked.algorithm:
                asked = asked._replace(algorithm=algorithm)
        if asked.algorithm == REPRODUCIBLE and not self._warned_of_flushing:
            self._warn_of_flushing()
        key = (tensor.numel(), tensor.dtype, asked)
        settled = self._settled.get(key) if asked.schedule is None else None
        if settled is not None:
            return settled
        request = Request(tensor.numel(), tensor.element_size(), dtype_of(tensor), *asked[:-1])
        if asked.schedule is not None:
            return Settled(self._given.call(asked.schedule, request, self._rank), may_plan=False)
        if len(self._settled) >= _CALLS_KEPT:
            self._settled.clear()
        call = settle(
            request,
            self._rank,
            self._ranks,
            lambda: self.link,
            lambda: self.selector,
            nodes=self._nodes,
            unnamed=(lambda: self._unnamed(request)) if asked.collective in _PRICED else None,
        )
        settled = self._settled[key] = Settled(call, self._may_plan(tensor, asked))
        return settled

    def _unnamed(self, request: Request) -> tuple[str, int | None]:
        """Algorithm and segments of a collective that names none: by rule, else by the model."""
        elements, element_bytes = request.elements, request.element_bytes
        if rules := self.rules(request.collective):
            ruled = by_rule(
                rules,
                request.collective,
                elements,
                element_bytes,
                ranks=self._ranks,
                nodes=self._nodes,
                link=self.link,
            )
            if ruled is not None:
                return ruled
        # Sizes within a quarter of an octave are priced as one.
        size_class = round(4 * math.log2(max(elements * element_bytes, 1)))
        key = (request.collective, size_class)
        if key not in self._cheapest:
            blocks = max(round(2 ** (size_class / 4) / element_bytes / self._ranks), 1)
            priced = blocks * self._ranks
            self._cheapest[key] = cheapest(
                request.collective,
                self._ranks,
                priced * element_bytes,
                priced,
                link=self.link,
                nodes=self._nodes,
            )
        return self._cheapest[key], None

    def _may_plan(self, tensor: torch.Tensor, asked: Arguments) -> bool:
        return (
            self._monitor is not None
            and asked.collective == "all_reduce"
            and left_open(asked.algorithm or "auto", asked.segments, asked.arrivals_s)
            and self.link.transfer_s(tensor.nbytes) >= _WORTH_PLANNING_S
        )

    def _warn_of_flushing(self) -> None:
        if _core.flushes_subnormals():
            self._warned_of_flushing = True
            warnings.warn(
                f"rank {self._rank}: this thread flushes subnormal numbers to zero "
                "(torch.set_flush_denormal(True)). The all-reduce keeps them, but what this rank "
                "computes itself can differ from ranks and runs that do not flush",
                RuntimeWarning,
                stacklevel=6,  # who called the communicator's method
            )
