"""Price a schedule: when would every rank have its result, and what did it wait for?"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, SupportsFloat

from patallreduce import _core
from patallreduce._core import Schedule
from patallreduce.pricing.link import Link
from patallreduce.pricing.models import Model
from patallreduce.pricing.networks import Network, native
from patallreduce.pricing.schedules import checked_name, seconds


class PathStep(NamedTuple):
    """A step of the critical path.

    Args:
        rank: Whose step it is.
        step: Its place in the rank's steps, from 0; -1: the rank's arrival.
        done_s: When it is done, on the clock of the arrivals.
    """

    rank: int
    step: int
    done_s: float


@dataclass(frozen=True)
class Result:
    """What a simulation found.

    Args:
        finish_s: (P,) seconds at which each rank has its result, on the clock of the arrivals.
        average_elapsed_s: Mean over the ranks of finish minus arrival.
        after_last_arrival_s: From the last rank's arrival to the last rank's finish.
        sends_s: (P,) seconds that each rank's port is busy sending; empty unless accounted for.
        receives_s: (P,) the same, receiving.
        works_s: (P,) seconds that each rank's processor sums, sends and receives (overheads).
        critical_path: From an arrival to the last finish: each step is the latest of all that the
            next one had to wait for, be it its data, a port or a processor. Empty unless asked for.
    """

    finish_s: tuple[float, ...]
    average_elapsed_s: float
    after_last_arrival_s: float
    sends_s: tuple[float, ...] = ()
    receives_s: tuple[float, ...] = ()
    works_s: tuple[float, ...] = ()
    critical_path: tuple[PathStep, ...] = ()


def simulate(
    schedule: Schedule,
    link: Model | Network,
    message_bytes: int,
    arrivals_s: Iterable[SupportsFloat] | None = None,
    *,
    account: bool = False,
) -> Result:
    """Predict when each rank would finish `schedule`, executed as this package's executor does.

    Every rank has one full-duplex port, and sends and receives one message at a time. Receives
    are posted before the rank arrives; what involves its own data waits for its arrival. It
    finishes with its result: what it still has to send does not count.

    Args:
        schedule: For P ranks, from :func:`schedule`; only what could deadlock is checked.
        link: Cost of a message between any two ranks: a `Link` (Hockney), `LogGP` or `PLogP`; or a
            `Network`, whose ranks differ or share uplinks. A `Link` of ports that differ, or that
            one message does not fill, is a network of them, which messages share.
        message_bytes: Size of the whole bucket, >= 0.
        arrivals_s: (P,) seconds on one common clock, in rank order, finite: the real arrivals,
            which may differ from those the schedule was made for. Default: all 0.
        account: Whether to tell, too, how busy ports and processors are, and the critical path.
            The finish times are the same either way.

    Raises:
        ScheduleError: The schedule deadlocks, the arrivals are not P finite numbers, or the
            network makes no sense.
        ValueError: `message_bytes` is negative.

    Source: Hockney, Parallel Computing 20 (1994), 389-398; the other models name theirs.

    """
    message_bytes = _checked_bytes(message_bytes)
    if account or not isinstance(link, Link) or link.shares_ports:
        return _result(
            _core.simulate_on_network(
                schedule, message_bytes, seconds(arrivals_s), native(link), critical_path=account
            )
        )
    finish_s, average_elapsed_s, after_last_arrival_s = _core.simulate(
        schedule,
        message_bytes,
        seconds(arrivals_s),
        link,
    )
    return Result(tuple(finish_s), average_elapsed_s, after_last_arrival_s)


def simulate_algorithm(
    name: str,
    ranks: int,
    segments: int | None = None,
    *,
    link: Model | Network,
    message_bytes: int,
    arrivals_s: Iterable[SupportsFloat] | None = None,
    predicted_s: Iterable[SupportsFloat] | None = None,
    collective: str = "all_reduce",
    root: int = 0,
    segment_time_s: float = 0.0,
    latency_s: float = 0.0,
    sum_s: float = 0.0,
    account: bool = False,
) -> Result:
    """Predict like :func:`simulate`, without making the schedule first: for many ranks.

    A rank's steps are forgotten when they are done. Those of a `ring` are generated round by round
    as the rank comes to them, so that memory does not grow with the number of rounds; of the
    others, which have few steps per rank and segment, all at once.

    Args:
        name: Of the algorithm, as for :func:`schedule`, like ranks, segments, collective, root and
            segment_time_s.
        ranks: Number of ranks P, >= 1.
        segments: Equal parts of the bucket, >= 1. Default: P.
        link: As for :func:`simulate`, like message_bytes, arrivals_s and account, which here
            stores every step once, and needs 24 bytes for each.
        message_bytes: Size of the whole bucket, >= 0.
        arrivals_s: (P,) seconds of the real arrivals. Default: all 0.
        predicted_s: (P,) seconds of those that the schedule is made for, >= 0. Default: all equal.
        collective: What the algorithm has to be for.
        root: Rank that keeps the result of a reduce.
        segment_time_s: As for :func:`schedule`, like latency_s and sum_s.
        latency_s: `clairvoyant` only.
        sum_s: `clairvoyant` only.
        account: Whether to tell the critical path; ports and processors are told anyway.

    Raises:
        ScheduleError: An unknown name, or a value out of range.
        ValueError: `message_bytes` is negative.

    Source: the algorithm's own is in :func:`algorithms`.

    """
    ranks = operator.index(ranks)
    return _result(
        _core.simulate_algorithm(
            checked_name(name, collective),
            ranks,
            ranks if segments is None else operator.index(segments),
            seconds(predicted_s),
            operator.index(root),
            segment_time_s,
            _checked_bytes(message_bytes),
            seconds(arrivals_s),
            native(link),
            critical_path=account,
            latency_s=latency_s,
            sum_s=sum_s,
            collective=collective,
        )
    )


def _checked_bytes(message_bytes: int) -> int:
    message_bytes = operator.index(message_bytes)
    if message_bytes < 0:
        raise ValueError(f"message_bytes: expected >= 0, got {message_bytes}")
    return message_bytes


def _result(found: _core.Account) -> Result:
    finish_s, average_elapsed_s, after_last_arrival_s, sends_s, receives_s, works_s, path = found
    return Result(
        tuple(finish_s),
        average_elapsed_s,
        after_last_arrival_s,
        tuple(sends_s),
        tuple(receives_s),
        tuple(works_s),
        tuple(PathStep(*step) for step in path),
    )
