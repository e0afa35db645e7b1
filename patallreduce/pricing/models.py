"""The models of the literature beside `Link`: what a message costs between two ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from patallreduce.pricing.link import Link

SizeTable: TypeAlias = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class LogGP:
    """A message of n bytes is there after ``L + 2 o + (n - 1) G``.

    A port sends, or receives, its next message ``max(g, o) + (n - 1) G`` after this one began.
    Overheads and sums take turns on a rank's processor.

    Args:
        latency_s: L, of the network alone, >= 0.
        overhead_s: o, for which a message occupies the sender's processor, and again the
            receiver's, >= 0.
        gap_s: g, between the end of a message and the end of the next one's first byte, >= 0.
        gap_per_byte_s: G, the reciprocal of the bandwidth, >= 0.
        reduce_bytes_per_s: Received bytes that one rank sums per second, > 0.

    Raises:
        ScheduleError: When it is used, a value out of range.

    Source: Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995, section 2.
    """

    latency_s: float
    overhead_s: float
    gap_s: float
    gap_per_byte_s: float
    reduce_bytes_per_s: float = 5e9


@dataclass(frozen=True)
class PLogP:
    """A message of n bytes is there after ``L + g(n)``, of which the receiver's last ``or(n)``.

    A port sends, or receives, its next message ``g(n)`` after this one began; the sender's
    processor is busy for ``os(n)`` from the start, the receiver's for ``or(n)`` before the end.

    Args:
        latency_s: L, from end to end, >= 0.
        gap_s: g as (bytes, seconds), ascending: linear between two sizes, below the first as the
            first, beyond the last as between the last two.
        send_overhead_s: os, at most g.
        receive_overhead_s: or, at most g.
        reduce_bytes_per_s: Received bytes that one rank sums per second, > 0.

    Raises:
        ScheduleError: When it is used, a table that is empty or does not ascend, or an overhead
            longer than the gap.

    Source: Kielmann, Bal, Verstoep, IPDPS 2000 Workshops, LNCS 1800, 1176-1183.
    """

    latency_s: float
    gap_s: SizeTable
    send_overhead_s: SizeTable
    receive_overhead_s: SizeTable
    reduce_bytes_per_s: float = 5e9


Model: TypeAlias = Link | LogGP | PLogP
