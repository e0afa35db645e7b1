"""The messages of a simulated schedule, each with the time in which it occupied its two ports."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsFloat

from patallreduce import _core
from patallreduce._core import Schedule, Step
from patallreduce.pricing.models import Model
from patallreduce.pricing.networks import Network, native
from patallreduce.pricing.schedules import seconds


@dataclass(frozen=True)
class Message:
    """One message of a simulated schedule.

    Args:
        sender: Its rank.
        receiver: Its rank.
        first: It carries the segments [first, last).
        last: One beyond its last segment.
        sums: Whether the receiver adds it to what it holds; otherwise it is a result.
        begin_s: When it begins to occupy the sender's outgoing and the receiver's incoming port, on
            the clock of the arrivals.
        end_s: When the ports are free again; where ports are shared, when the sender's has let it
            through. It is there later by the part of the latency that does not occupy them:
            (1 - link.port_share) * link.latency_s.
    """

    sender: int
    receiver: int
    first: int
    last: int
    sums: bool
    begin_s: float
    end_s: float


def simulated_messages(
    schedule: Schedule,
    link: Model | Network,
    message_bytes: int,
    arrivals_s: Iterable[SupportsFloat] | None = None,
) -> list[Message]:
    """Say when each message of `schedule` would be on its way, ascending by its begin.

    Segments without any bytes (a bucket shorter than its segments) make no message. Arguments and
    errors as of `simulate`, whose run this is.
    """
    message_bytes = operator.index(message_bytes)
    if message_bytes < 0:
        raise ValueError(f"message_bytes: expected >= 0, got {message_bytes}")
    uses = _core.simulate_ports(schedule, message_bytes, seconds(arrivals_s), native(link))
    programs = [schedule.steps(rank) for rank in range(schedule.ranks)]
    receives = _receives(programs)
    messages = []
    for sender, number, begin_s, end_s in uses:
        step = programs[sender][number]
        sums = receives[sender, number].verb == "recv_reduce"
        messages.append(Message(sender, step.peer, step.first, step.last, sums, begin_s, end_s))
    return sorted(messages, key=lambda message: (message.begin_s, message.sender))


def _receives(programs: list[list[Step]]) -> dict[tuple[int, int], Step]:
    """Find the receive of every send: between two ranks they match in program order."""
    steps = [(rank, n, step) for rank, of in enumerate(programs) for n, step in enumerate(of)]
    takes: dict[tuple[int, int], list[Step]] = defaultdict(list)
    for rank, _, step in steps:
        if step.verb != "send":
            takes[step.peer, rank].append(step)
    in_order = {channel: iter(of) for channel, of in takes.items()}
    return {
        (rank, n): next(in_order[rank, step.peer]) for rank, n, step in steps if step.verb == "send"
    }
