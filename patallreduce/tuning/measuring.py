"""Measures a case by a method on the ranks of a communicator; what is wrong counts for nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from patallreduce import _core
from patallreduce.communicator.calls import by_rule
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.settler import Arguments
from patallreduce.decisions.times import Case, Method

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
GLOO = Method("gloo")  # the baseline beside ours: torch's own, on the processor
_MOST_IN_FLIGHT = 8  # as csrc/selection/selector.cpp has it
_LEAST_IN_FLIGHT = 3  # of what is long: more would take long, and hide no more of a latency
_BYTES_IN_FLIGHT = 8 << 20
ANY_SIZE = 2**63
ELEMENT_BYTES = 4  # float32
_PERIOD = 13  # of the values in a tensor
_BY_GLOO: dict[str, Callable[[torch.Tensor], object]] = {
    "all_reduce": dist.all_reduce,
    "reduce": lambda tensor: dist.reduce(tensor, 0),
    "broadcast": lambda tensor: dist.broadcast(tensor, 0),
}


def has_baseline(case: Case) -> bool:
    """Whether torch's own can be measured beside ours."""
    gloo = dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo"
    return gloo and case.collective in _BY_GLOO and not case.beside_others


def elements_of(case: Case) -> int:
    """Of the tensor; where it is blocks of the ranks, these are equal."""
    elements = max(case.message_bytes // ELEMENT_BYTES, 1)
    if case.collective in ("all_gather", "reduce_scatter"):
        elements = max(elements // case.ranks, 1) * case.ranks
    return elements


def _usual(collective: str) -> str:
    """Whatever a tuning file says."""
    return _core.usual_algorithm(collective).name


def in_flight(case: Case) -> int:
    """How many like it are measured together."""
    if not case.beside_others:
        return 1
    fitting = _BYTES_IN_FLIGHT // case.message_bytes
    return min(max(fitting, _LEAST_IN_FLIGHT), _MOST_IN_FLIGHT)


def _one_by_one(call: Callable[[torch.Tensor], object], tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        call(tensor)


class Measuring:
    """Collective: all ranks call it with the same arguments, while nothing else runs."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._values = torch.empty(0)  # of the longest tensor yet

    def seconds(
        self, case: Case, method: Method, repeats: int, *, segments: int | None = None
    ) -> list[float]:
        """Seconds from a barrier until the last rank is done, for one of those in flight.

        The first run's result is checked, and its time not counted where there are more.
        `segments`: so many, whatever the method says.

        Raises:
            RuntimeError: A result is wrong on some rank.
            ScheduleError: No such algorithm.
        """
        tensors = [self._filled(case) for _ in range(in_flight(case))]
        run = self._way(case, method, segments)  # not timed
        own_s = [0.0]  # > 0 before them if the first result is wrong
        for number in range(repeats if repeats == 1 else repeats + 1):
            self._comm.barrier()
            start_s = time.monotonic()
            run(tensors)
            own_s.append((time.monotonic() - start_s) / len(tensors))
            if number == 0:
                own_s[0] = float(not all(self._is_right(case, tensor) for tensor in tensors))
        # A barrier too: who is done takes no processor from who is not.
        wrong, *seconds = self._over_ranks(own_s, "max")
        if wrong:
            raise RuntimeError(f"{method} gave a wrong result of {case}: not counted")
        return seconds[-repeats:]

    def agreed(self, values: list[int]) -> list[int]:
        """Rank 0's values, on all ranks, however many there are."""
        count = torch.tensor([len(values)])
        self._comm.broadcast(count, 0, _usual("broadcast"))
        told = torch.zeros(int(count), dtype=torch.int64)
        if self._comm.rank == 0:
            told = torch.tensor(values, dtype=torch.int64)
        if len(told):
            self._comm.broadcast(told, 0, _usual("broadcast"))
        return told.tolist()

    def _over_ranks(self, values: list[float], op: str) -> list[float]:
        shared = torch.tensor(values, dtype=torch.float64)
        self._comm.all_reduce(shared, op, _usual("all_reduce"), segments=1)
        return [float(value) for value in shared]

    def _way(
        self, case: Case, method: Method, segments: int | None
    ) -> Callable[[list[torch.Tensor]], None]:
        if method == GLOO:
            return partial(_one_by_one, _BY_GLOO[case.collective])
        comm = self._comm
        algorithm = method.algorithm
        if segments is None:
            rules = _core.Rules([(ANY_SIZE, *method)], case.collective)
            size = (elements_of(case), ELEMENT_BYTES)
            nodes = comm.session.nodes
            ruled = by_rule(
                rules, case.collective, *size, ranks=comm.ranks, nodes=nodes, link=comm.link
            )
            assert ruled is not None
            algorithm, segments = ruled
        asked = Arguments(algorithm=algorithm, segments=segments, collective=case.collective)
        return partial(self._together, asked)

    def _together(self, asked: Arguments, tensors: list[torch.Tensor]) -> None:
        alone = len(tensors) == 1
        works = [self._comm.session.run(one, asked, caller_waits=alone) for one in tensors]
        for work in works:
            work.wait()

    # Small whole numbers: their sums are exact, in any order.
    def _filled(self, case: Case) -> torch.Tensor:
        return self._pattern(case) * (self._comm.rank + 1)

    def _pattern(self, case: Case) -> torch.Tensor:
        elements = elements_of(case)
        if len(self._values) < elements:
            self._values = (torch.arange(elements) % _PERIOD).to(torch.float32)
        return self._values[:elements]

    def _is_right(self, case: Case, tensor: torch.Tensor) -> bool:
        rank, ranks = self._comm.rank, case.ranks
        total = ranks * (ranks + 1) // 2
        pattern = self._pattern(case)
        if case.collective == "all_reduce":
            return torch.equal(tensor, pattern * total)
        if case.collective == "reduce":
            return rank != 0 or torch.equal(tensor, pattern * total)
        if case.collective == "broadcast":
            return torch.equal(tensor, pattern)
        by_rank, expected = tensor.view(ranks, -1), pattern.view(ranks, -1)
        if case.collective == "reduce_scatter":
            return torch.equal(by_rank[rank], expected[rank] * total)
        factors = torch.arange(1, ranks + 1, dtype=torch.float32).view(-1, 1)
        return torch.equal(by_rank, expected * factors)
