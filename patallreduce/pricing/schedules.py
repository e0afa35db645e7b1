"""Make, list and prove schedules: who sends what to whom, in which order."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import SupportsFloat

from patallreduce import _core
from patallreduce._core import Schedule, ScheduleError
from patallreduce.arguments import nearest, numbers

# What all-reduces run while nothing is known of the arrivals: no forecast can make it worse.
SAFE = _core.usual_algorithm("all_reduce").name


def schedule(
    name: str,
    ranks: int,
    segments: int | None = None,
    arrivals_s: Iterable[SupportsFloat] | None = None,
    *,
    collective: str = "all_reduce",
    root: int = 0,
    segment_time_s: float = 0.0,
    round_s: float | None = None,
    latency_s: float = 0.0,
    sum_s: float = 0.0,
    nodes: Iterable[int] | None = None,
    ports: Iterable[SupportsFloat] | None = None,
) -> Schedule:
    """Generate the schedule of algorithm `name`.

    Args:
        name: One of :func:`algorithms`.
        ranks: Number of ranks P, >= 1.
        segments: Equal parts of the bucket that travel separately, >= 1. Default: P, as the
            arrival-aware algorithms were published.
        arrivals_s: (P,) seconds on one common clock, in rank order, finite and >= 0. Default:
            all ranks arrive together. Equal arrivals are ordered by rank.
        collective: What the algorithm has to be for: "all_reduce", "reduce", "reduce_scatter",
            "all_gather", "broadcast", "barrier" or "all_to_all". Block r of a reduce-scatter or
            all-gather is the segments [r * segments // P, (r + 1) * segments // P).
        root: Rank that keeps the result of a reduce or gives the data of a broadcast, or that a
            barrier meets at; others ignore it.
        segment_time_s: `prr`: tau, the seconds to transfer and reduce 1/P of the bucket,
            whatever the number of segments. With 0 every pre-step fits that any earliness allows.
            `direct_exchange`: the same, through the narrowest port; with 0 arrivals change nothing.
            `local_redirect_reduce`: the same; with 0 ranks are summed in order of arrival.
            `clairvoyant`: the seconds of a round, to transfer and reduce one segment. With 0
            everything that can be done is done before the next arrival.
        round_s: `clairvoyant`'s name for segment_time_s; given, it takes its place.
        latency_s: `clairvoyant` as an all-reduce: what of a round a message of more segments does
            not take again. With 0 it cuts the data as finely as it can.
        sum_s: The same: what of a round is the sum, during which the ports are free.
        nodes: (P,) the node of each rank, 0 to P - 1: ranks of one node share its port to the
            others. `ring`, `slt` and `prr` then let every segment enter a node once, and once more
            as a result; in `direct_exchange` nodes own shares; `reproducible` keeps its sums, held
            where few messages between nodes come of it; other algorithms take no account of it.
            Default: no two ranks share one.
        ports: (P,) bandwidth of each rank's port, > 0, in any unit. `direct_exchange` has ranks own
            shares of the data by it; others take no account of it. Default: all alike.

    Returns:
        The steps of every rank. :func:`verify` proves them.

    Raises:
        ScheduleError: A name is unknown (the message lists the known ones) or a value is out
            of range (the message names the rank and the value).
        TypeError: A number has the wrong type.

    Source: each algorithm's own is in :func:`algorithms`.

    """
    ranks = operator.index(ranks)
    return _core.generate(
        checked_name(name, collective),
        ranks,
        ranks if segments is None else operator.index(segments),
        seconds(arrivals_s),
        operator.index(root),
        segment_time_s if round_s is None else round_s,
        latency_s,
        sum_s,
        collective,
        [] if nodes is None else [operator.index(node) for node in nodes],
        [] if ports is None else _widths(numbers("ports", ports), ranks),
    )


def verify(schedule: Schedule) -> None:
    """Prove that `schedule` does its collective, whatever the data and the timing.

    It cannot deadlock, the two ends of every message agree, and every rank ends with what its
    collective is for. After an all_reduce: every contribution exactly once, and all ranks with the
    same parenthesised sum per segment, so that replicas cannot drift apart by rounding. ``a + b``
    and ``b + a`` count as the same sum; re-association does not. A reduce asks that of the root, a
    reduce_scatter of rank r in block r, an all_gather for rank r's own contribution in block r on
    every rank, a broadcast for the root's, a barrier that every rank has heard of every other one.
    Of a schedule that promises the reproducible tree (``schedule.tree``) that parenthesised sum
    must be the tree's, in every segment.

    Takes milliseconds up to some 100,000 steps.

    Raises:
        ScheduleError: The schedule is wrong; the message names the rank and the step.

    """
    _core.verify(schedule)


def algorithms(collective: str = "all_reduce") -> dict[str, str]:
    """Name the algorithms for `collective`, each with the publication it comes from.

    Raises:
        ScheduleError: There is no algorithm for `collective`.

    """
    everything = _core.algorithms()
    found = {each.name: each.source for each in everything if each.collective == collective}
    if not found:
        known = sorted({each.collective for each in everything})
        raise ScheduleError(
            f"no algorithm for collective {collective!r}; known collectives: {', '.join(known)}"
        )
    return found


def checked_name(name: str, collective: str) -> str:
    """Return the name, or raise a ScheduleError unless it is an algorithm for `collective`."""
    known = algorithms(collective)
    if name not in known:
        raise ScheduleError(
            f"unknown algorithm {name!r} for {collective}; known: {', '.join(known)}"
            f"{nearest(str(name), known)}"
        )
    return name


def seconds(arrivals_s: Iterable[SupportsFloat] | None) -> list[float]:
    """Convert arrivals for the core, where an empty list means that all are equal."""
    if arrivals_s is None:
        return []
    converted = numbers("arrivals_s", arrivals_s)
    if not converted:
        raise ScheduleError("expected one arrival per rank, got none; None means all equal")
    return converted


def _widths(ports: list[float], ranks: int) -> list[int]:
    if len(ports) != ranks:
        raise ScheduleError(f"expected one port per rank ({ranks}), got {len(ports)} ports")
    for rank, port in enumerate(ports):
        if not 0 < port < float("inf"):
            raise ScheduleError(f"ports: expected bandwidths > 0, got {port} for rank {rank}")
    return _core.port_widths(ports)
