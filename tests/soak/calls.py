"""One collective of a soak, from its data to the check of every bit of its result."""

from __future__ import annotations

import functools
from typing import Any

import torch

import patallreduce as pat
from tests.communicator.reference import (
    assert_is_a_sum,
    contributions,
    expected,
    times_s,
)

from .steps import OF_BLOCKS, Case

_TAU_S = 0.1
_ASK_TAU = ("prr", "direct_exchange")
_given = functools.lru_cache(maxsize=64)(pat.schedule)


def _order_free(part: torch.Tensor, op: str) -> torch.Tensor:
    """Small integers, of products powers of two: of these every sum order gives the same bits."""
    if not part.dtype.is_floating_point:
        return part
    if op == "prod":
        return torch.exp2(part.round().clamp(-1, 1))
    return part.mul(2).round().clamp(-12, 12) + 0.0  # no -0


class Call:
    """A collective of this rank, under way or done."""

    def __init__(self, case: Case, communicator: pat.Communicator) -> None:
        self._case = case
        self._communicator = communicator
        ranks = communicator.ranks
        self._tensor = self._parts()[communicator.rank]
        self._work: pat.Work | None = None
        self._schedule: pat.Schedule | None = None
        self._link: pat.Link | None = None
        if case.given:
            root = case.root if case.collective in ("reduce", "broadcast") else 0
            self._schedule = _given(
                *(case.algorithm, ranks, case.segments), collective=case.collective, root=root
            )

    def _parts(self) -> list[torch.Tensor]:
        """Every rank's data: made again for the check, as tens of calls can be under way."""
        case = self._case
        parts = contributions(self._communicator.ranks, case.elements, case.dtype, case.seed)
        return parts if case.ordered else [_order_free(part, case.op) for part in parts]

    @property
    def kind(self) -> str:
        """What is counted."""
        return f"{self._case.collective} {self._case.algorithm or 'usual'}"

    def start(self, *, async_op: bool) -> None:
        """Call it."""
        case = self._case
        if case.ordered and not case.given:  # collective, where it is not measured yet
            self._link = self._communicator.link
        asked: dict[str, Any] = {"async_op": async_op}
        if case.given:
            asked["schedule"] = self._schedule
        else:
            asked["algorithm"] = case.algorithm
            if case.collective not in OF_BLOCKS:
                asked["segments"] = case.segments
            if case.collective in ("all_reduce", "reduce"):
                asked["arrivals_s"] = case.arrivals_s
            if case.algorithm in _ASK_TAU:
                asked["segment_time_s"] = _TAU_S
        if case.collective in ("reduce", "broadcast"):
            asked["root"] = case.root
        if case.collective in ("all_reduce", "reduce", "reduce_scatter"):
            asked["op"] = case.op
        self._work = getattr(self._communicator, case.collective)(self._tensor, **asked)

    def finish(self, *, by_future: bool) -> None:
        """Wait for the result, spoil the tensor, which is the caller's again, and check."""
        if self._work is not None and by_future:
            assert self._work.get_future().wait() is self._tensor
        elif self._work is not None:
            self._work.wait()
        result = self._tensor.clone()
        self._tensor.fill_(77)
        self._check(result)

    def _check(self, result: torch.Tensor) -> None:
        case, parts = self._case, self._parts()
        rank, ranks = self._communicator.rank, self._communicator.ranks
        own, block = slice(None), case.elements // ranks
        if case.collective == "broadcast":
            candidates = [parts[case.root]]
        elif case.collective == "all_gather":
            blocks = [part[block * r :][:block] for r, part in enumerate(parts)]
            candidates = [torch.cat(blocks)]
        elif case.collective == "reduce" and rank != case.root:
            candidates = [parts[rank]]
        else:
            candidates = expected(parts, case.op, self._sum_order())
        if case.collective == "reduce_scatter":
            own = slice(rank * block, (rank + 1) * block)
        assert_is_a_sum(result[own], [one[own] for one in candidates], str(case))

    def _sum_order(self) -> pat.Schedule:
        case, ranks = self._case, self._communicator.ranks
        if not case.ordered or case.algorithm == "reproducible":
            return _given("reproducible", ranks, 1)
        if self._schedule is not None:
            return self._schedule
        assert case.algorithm is not None
        assert case.segments is not None
        assert self._link is not None
        tau_s = _TAU_S if case.algorithm in _ASK_TAU else 0.0
        times = times_s(case.algorithm, case.segments, tau_s, self._tensor, self._link)
        if case.algorithm == "direct_exchange":
            times["ports"] = self._link.widths or None
        return pat.schedule(case.algorithm, ranks, case.segments, case.arrivals_s, **times)
