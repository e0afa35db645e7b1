"""Price a schedule: when would every rank have its result?"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsFloat

from patallreduce import _core
from patallreduce._core import Schedule
from patallreduce.link import Link
from patallreduce.schedules import seconds


@dataclass(frozen=True)
class Result:
    """What a simulation found.

    Args:
        finish_s: (P,) seconds at which each rank has its result, on the clock of the arrivals.
        average_elapsed_s: Mean over the ranks of finish minus arrival.
        after_last_arrival_s: From the last rank's arrival to the last rank's finish.
    """

    finish_s: tuple[float, ...]
    average_elapsed_s: float
    after_last_arrival_s: float


def simulate(
    schedule: Schedule,
    link: Link,
    message_bytes: int,
    arrivals_s: Iterable[SupportsFloat] | None = None,
) -> Result:
    """Predict when each rank would finish `schedule`, executed as this package's executor does.

    Every rank has one full-duplex port, and sends and receives one message at a time. Receives
    are posted before the rank arrives; what involves its own data waits for its arrival. It
    finishes with its result: what it still has to send does not count.

    Args:
        schedule: For P ranks, from :func:`schedule`; only what could deadlock is checked.
        link: Cost of a message between any two ranks.
        message_bytes: Size of the whole bucket, >= 0.
        arrivals_s: (P,) seconds on one common clock, in rank order, finite: the real arrivals,
            which may differ from those the schedule was made for. Default: all 0.

    Raises:
        ScheduleError: The schedule deadlocks, or the arrivals are not P finite numbers.
        ValueError: `message_bytes` is negative.

    Source: Hockney, Parallel Computing 20 (1994), 389-398.

    """
    message_bytes = operator.index(message_bytes)
    if message_bytes < 0:
        raise ValueError(f"message_bytes: expected >= 0, got {message_bytes}")
    finish_s, average_elapsed_s, after_last_arrival_s = _core.simulate(
        schedule,
        message_bytes,
        seconds(arrivals_s),
        link.latency_s,
        link.bytes_per_s,
        link.reduce_bytes_per_s,
        link.transfers_s,
        link.port_share,
    )
    return Result(tuple(finish_s), average_elapsed_s, after_last_arrival_s)
