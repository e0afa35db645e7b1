"""The clock of PAP18's drawings (Fig. 2, 6, 8): every message takes one unit of time."""

from __future__ import annotations

from typing import Any

import pytest

from patallreduce import Schedule


def exit_times(schedule: Schedule, arrivals: list[float]) -> list[float]:
    """Return when each rank has run all its steps, in units of one message.

    A rank sends one message and takes one at a time, each in program order, neither before it
    arrives; a send waits for the last write of its segment, a receive for the last use.
    """
    ranks = schedule.ranks
    left = {
        (rank, sends): [s for s in schedule.steps(rank) if (s.verb == "send") == sends]
        for rank in range(ranks)
        for sends in (True, False)
    }
    # Program order of each rank's uses of a segment decides what a message waits for.
    uses = {
        (rank, segment): [s for s in schedule.steps(rank) if s.first == segment]
        for rank in range(ranks)
        for segment in range(schedule.segments)
    }
    free = {port: arrivals[port[0]] for port in left}  # when the port is next idle
    ready = {use: arrivals[use[0]] for use in uses}  # when the segment's last use ended

    def in_turn(rank: int, peer: int, segment: int) -> bool:
        send, take = left[rank, True][0], left[peer, False][0]
        return (
            (take.peer, take.first) == (rank, segment)
            and uses[rank, segment][0] == send
            and uses[peer, segment][0] == take
        )

    while any(left.values()):
        rank, peer, segment = next(
            (rank, steps[0].peer, steps[0].first)
            for (rank, sends), steps in left.items()
            if sends and steps and in_turn(rank, steps[0].peer, steps[0].first)
        )
        port, peer_port, here, there = (rank, True), (peer, False), (rank, segment), (peer, segment)
        end = max(free[port], free[peer_port], ready[here], ready[there]) + 1
        free[port] = free[peer_port] = ready[here] = ready[there] = end
        for queue in (left[port], left[peer_port], uses[here], uses[there]):
            queue.pop(0)
    return [max(free[rank, True], free[rank, False]) for rank in range(ranks)]


def unordered(order: Any) -> Any:
    """Return a sum order as sets of two: addition is commutative, but not associative."""
    return order if isinstance(order, int) else frozenset(map(unordered, order))


@pytest.fixture(scope="session", name="unordered")
def unordered_fixture():
    return unordered


@pytest.fixture(scope="session", name="exit_times")
def exit_times_fixture():
    return exit_times
