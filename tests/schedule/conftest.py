"""A second opinion on schedules: the ordering rule run in plain Python, one random step at a time.

Shares no code with the verifier, and is as slow as it is simple.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

from patallreduce import Schedule, Step

SumOrder = Any  # int | tuple[SumOrder, SumOrder]


class WrongScheduleError(Exception):
    """The schedule cannot be run: unmatched messages or deadlock."""


def canonical(order: SumOrder) -> SumOrder:
    """Sort the operands of every sum: addition is commutative, but not associative."""
    if isinstance(order, int):
        return order
    return tuple(sorted((canonical(part) for part in order), key=repr))


def contributions(order: SumOrder) -> list[int]:
    """List the ranks in a sum, as often as they come."""
    if isinstance(order, int):
        return [order]
    return sorted(contributions(order[0]) + contributions(order[1]))


def conflict(a: Step, b: Step) -> bool:
    overlap = a.first < b.last and b.first < a.last
    return overlap and not (a.verb == b.verb == "send")


def same_channel(a: Step, b: Step) -> bool:
    return a.peer == b.peer and (a.verb == "send") == (b.verb == "send")


def run(schedule: Schedule, seed: int = 0) -> list[list[SumOrder]]:
    """Return [rank][segment] -> canonical sum order, or raise WrongScheduleError."""
    choose = random.Random(seed).choice
    held: list[list[SumOrder]] = [[rank] * schedule.segments for rank in range(schedule.ranks)]
    left = [list(schedule.steps(rank)) for rank in range(schedule.ranks)]
    channels: dict[tuple[int, int], deque[tuple[int, int, list[SumOrder]]]] = defaultdict(deque)

    def may_run(rank: int, index: int) -> bool:
        step = left[rank][index]
        if any(conflict(e, step) or same_channel(e, step) for e in left[rank][:index]):
            return False
        return step.verb == "send" or bool(channels[step.peer, rank])

    while any(left):
        ready = [(r, i) for r, steps in enumerate(left) for i in range(len(steps)) if may_run(r, i)]
        if not ready:
            raise WrongScheduleError("deadlock")
        rank, index = choose(ready)
        step = left[rank].pop(index)
        if not (0 <= step.peer < schedule.ranks and step.peer != rank):
            raise WrongScheduleError("peer")
        if not 0 <= step.first < step.last <= schedule.segments:
            raise WrongScheduleError("segments")
        span = range(step.first, step.last)
        if step.verb == "send":
            message = (step.first, step.last, [held[rank][s] for s in span])
            channels[rank, step.peer].append(message)
            continue
        first, last, received = channels[step.peer, rank].popleft()
        if (first, last) != (step.first, step.last):
            raise WrongScheduleError("the two ends disagree")
        for s, value in zip(span, received, strict=True):
            held[rank][s] = value if step.verb == "recv" else canonical((value, held[rank][s]))
    if any(channels.values()):
        raise WrongScheduleError("a message is never taken")
    return held


def is_right(schedule: Schedule, seed: int = 0) -> bool:
    """Say whether `schedule` is an all-reduce with one sum order per segment."""
    try:
        held = run(schedule, seed)
    except WrongScheduleError:
        return False
    return all(
        order == held[0][s] and contributions(order) == list(range(schedule.ranks))
        for row in held
        for s, order in enumerate(row)
    )


@pytest.fixture(scope="session")
def interpret() -> Callable[..., list[list[SumOrder]]]:
    return run


@pytest.fixture(scope="session")
def judge() -> Callable[..., bool]:
    return is_right


@pytest.fixture(scope="session")
def canonical_order() -> Callable[[SumOrder], SumOrder]:
    return canonical
