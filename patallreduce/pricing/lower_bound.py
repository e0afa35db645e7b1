"""What no all-reduce can beat: lower bounds on when ranks have their results."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from patallreduce._core import ScheduleError
from patallreduce.pricing.link import Link
from patallreduce.pricing.schedules import seconds


@dataclass(frozen=True)
class Bound:
    """Times that no schedule is below.

    Args:
        finish_s: (P,) seconds: no rank has its last result before, on the clock of the arrivals.
        last_finish_s: Not all ranks have their results before; >= max(finish_s).
        average_elapsed_s: Mean over the ranks of finish_s minus the rank's last arrival.
    """

    finish_s: tuple[float, ...]
    last_finish_s: float
    average_elapsed_s: float


def lower_bound(
    link: Link,
    message_bytes: int | Sequence[int],
    arrivals_s: Sequence[float] | Sequence[Sequence[float]],
) -> Bound:
    """Bound what any exact all-reduce can do under these arrivals, in the world of `simulate`.

    Of one bucket, or of all buckets of an iteration, whose messages share the ranks' ports. With
    W = M * beta, the time in which a bucket's data pass a port, and the latency alpha:

    * A rank needs every other one's data of a bucket, which take W to come in after the last of
      these arrivals, a bucket after the other, and fly for alpha.
    * Of the last rank's data one byte is the last to leave, W after the arrival. All others need
      what depends on it, and each message informs one rank: with the latency's share that a port is
      busy this is the broadcast of the postal model. Buckets with the same last rank leave its port
      one after the other.
    * At the last arrival T of a bucket consider that bucket and all whose last arrival is later. Of
      their data a rank has not sent ``u`` seconds. Where k ranks still hold their own contribution,
      k - 1 messages are needed to bring them together and P - 1 to spread the result; P ports share
      them: ``T + (sum u + (P - 2) sum W) / P``, and a message's flight. For one bucket and ranks
      that arrive together that is ring's 2 (P - 1) / P * W.

    Sums are free here. The bounds are not always attainable; the third cannot be where late ranks
    must take others' contributions and results at once.

    Args:
        link: Between any two ranks.
        message_bytes: Of the whole bucket, >= 0; or (buckets,) of each.
        arrivals_s: (P,) seconds on one clock, finite; or (buckets, P).

    Raises:
        ScheduleError: No arrivals, or not as many rows as buckets, or rows that differ in length.
        TypeError: A number has the wrong type.

    Source: Patarasuk, Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124, for the bytes; Harary,
        Schwenk, J. Franklin Inst. 297 (1974), 491-495, for 2 (P - 1) one-way messages; Bar-Noy,
        Kipnis, Math. Systems Theory 27 (1994), 431-452, for the postal model.
    """
    wholes_s, rows = _buckets(link, message_bytes, arrivals_s)
    ranks = len(rows[0])
    arrived_s = [max(column) for column in zip(*rows, strict=True)]
    if ranks == 1:
        return Bound((arrived_s[0],), arrived_s[0], 0.0)
    finish_s = tuple(
        max(arrived_s[rank], _done_s(_of_others(rows, rank), wholes_s) + link.latency_s)
        for rank in range(ranks)
    )
    lasts_s = [max(row) for row in rows]
    last_finish_s = max(finish_s)
    flight_s = (1 - link.port_share) * link.latency_s
    for last_s, whole_s in zip(lasts_s, wholes_s, strict=True):
        last_finish_s = max(last_finish_s, last_s + whole_s + _broadcast_s(ranks, link))
        later = [b for b, other_s in enumerate(lasts_s) if other_s >= last_s]
        later_s = [wholes_s[b] for b in later]
        unsent_s = sum(
            sum(later_s) - _served_s([rows[b][rank] for b in later], later_s, last_s)
            for rank in range(ranks)
        )
        if sum(later_s) > 0:
            share_s = (unsent_s + (ranks - 2) * sum(later_s)) / ranks
            last_finish_s = max(last_finish_s, last_s + share_s + flight_s)
    for rank in range(ranks):
        leaving = [b for b, row in enumerate(rows) if row[rank] == lasts_s[b]]
        if leaving:
            done_s = _done_s([lasts_s[b] for b in leaving], [wholes_s[b] for b in leaving])
            last_finish_s = max(last_finish_s, done_s + link.latency_s)
    return Bound(finish_s, last_finish_s, (sum(finish_s) - sum(arrived_s)) / ranks)


def _buckets(
    link: Link,
    message_bytes: int | Sequence[int],
    arrivals_s: Sequence[float] | Sequence[Sequence[float]],
) -> tuple[list[float], list[list[float]]]:
    """Return by bucket how long its data pass a port, and its arrivals."""
    if isinstance(message_bytes, Sequence):
        rows = [seconds(cast("Sequence[float]", row)) for row in arrivals_s]
        if not rows or len(rows) != len(message_bytes):
            raise ScheduleError(
                f"expected arrivals of {len(message_bytes)} buckets, one or more, got {len(rows)}"
            )
        if len({len(row) for row in rows}) > 1:
            raise ScheduleError(
                "expected one arrival per rank and bucket, got of the buckets "
                f"{', '.join(str(len(row)) for row in rows)}"
            )
        sizes = [operator.index(size) for size in message_bytes]
    else:
        rows = [seconds(cast("Sequence[float]", arrivals_s))]
        sizes = [operator.index(message_bytes)]
    most = _most_bytes_per_s(link)
    return [size / most for size in sizes], rows


def _most_bytes_per_s(link: Link) -> float:
    return max([link.bytes_per_s, *(size / took_s for size, took_s in link.transfers_s)])


def _of_others(rows: list[list[float]], rank: int) -> list[float]:
    """By bucket, the last arrival of another rank."""
    return [max(row[:rank] + row[rank + 1 :]) for row in rows]


def _done_s(from_s: list[float], lengths_s: list[float]) -> float:
    """When a port has served all, each from its time on."""
    done_s = -math.inf
    for at_s, length_s in sorted(zip(from_s, lengths_s, strict=True)):
        done_s = max(done_s, at_s) + length_s
    return done_s


def _served_s(from_s: list[float], lengths_s: list[float], until_s: float) -> float:
    """How long it has served them until then."""
    done_s, served_s = -math.inf, 0.0
    for at_s, length_s in sorted(zip(from_s, lengths_s, strict=True)):
        begin_s = max(done_s, at_s)
        done_s = begin_s + length_s
        served_s += min(max(until_s - begin_s, 0.0), length_s)
    return served_s


# One knows, at 0. Who knows tells one after the other, a port's share apart.
def _broadcast_s(ranks: int, link: Link) -> float:
    heard_s = [link.latency_s]  # a heap: when who knows could next have told another one
    now_s = 0.0
    for _ in range(ranks - 1):
        now_s = heapq.heappop(heard_s)
        heapq.heappush(heard_s, now_s + link.port_share * link.latency_s)
        heapq.heappush(heard_s, now_s + link.latency_s)
    return now_s
