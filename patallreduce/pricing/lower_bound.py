"""What no all-reduce can beat: lower bounds on when ranks have their results."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.pricing.link import Link
from patallreduce.pricing.schedules import seconds


@dataclass(frozen=True)
class Bound:
    """Times that no schedule is below.

    Args:
        finish_s: (P,) seconds: no rank has its result before, on the clock of the arrivals.
        last_finish_s: Not all ranks have their results before; >= max(finish_s).
        average_elapsed_s: Mean over the ranks of finish_s minus arrival.
    """

    finish_s: tuple[float, ...]
    last_finish_s: float
    average_elapsed_s: float


def lower_bound(link: Link, message_bytes: int, arrivals_s: Sequence[float]) -> Bound:
    """Bound what any exact all-reduce can do under these arrivals, in the world of `simulate`.

    With W = M * beta, the time in which the data pass a port, and the latency alpha:

    * A rank needs every other one's data, which take W to leave and arrive alpha later: it finishes
      at or after ``max(a_j) + W + alpha`` over the others j.
    * Of the last rank's data one byte is the last to leave, W after the arrival. All others need
      what depends on it, and each message informs one rank: with the latency's share that a port is
      busy this is the broadcast of the postal model.
    * At any arrival T a rank j has not sent ``u_j = 1 - (T - a_j) / W`` of its data. Where k ranks
      still hold their own contribution, k - 1 messages are needed to bring them together and P - 1
      to spread the result; P ports share them: ``T + (sum u_j + P - 2) * W / P``, and a message's
      flight. For ranks that arrive together that is ring's 2 (P - 1) / P * W.

    Sums are free here. The bounds are not always attainable; the third cannot be where late ranks
    must take others' contributions and results at once.

    Args:
        link: Between any two ranks.
        message_bytes: Of the whole bucket, >= 0.
        arrivals_s: (P,) seconds on one clock, finite.

    Raises:
        ScheduleError: No arrivals.
        TypeError: A number has the wrong type.

    Source: Patarasuk, Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124, for the bytes; Harary,
        Schwenk, J. Franklin Inst. 297 (1974), 491-495, for 2 (P - 1) one-way messages; Bar-Noy,
        Kipnis, Math. Systems Theory 27 (1994), 431-452, for the postal model.
    """
    arrivals = seconds(arrivals_s)
    ranks = len(arrivals)
    if ranks == 1:
        return Bound((arrivals[0],), arrivals[0], 0.0)
    whole_s = operator.index(message_bytes) / _most_bytes_per_s(link)
    ordered = sorted(arrivals)
    last_s, second_s = ordered[-1], ordered[-2]
    last = arrivals.index(last_s)
    through_s = whole_s + link.latency_s
    finish_s = tuple(
        max(arrival_s, (second_s if rank == last else last_s) + through_s)
        for rank, arrival_s in enumerate(arrivals)
    )
    last_finish_s = max(*finish_s, last_s + whole_s + _broadcast_s(ranks, link))
    flight_s = (1 - link.port_share) * link.latency_s
    for from_s in ordered if whole_s > 0 else ():
        unsent = sum(min(max(1 - (from_s - a) / whole_s, 0.0), 1.0) for a in arrivals)
        share = (unsent + ranks - 2) / ranks
        last_finish_s = max(last_finish_s, from_s + share * whole_s + flight_s)
    return Bound(finish_s, last_finish_s, (sum(finish_s) - sum(arrivals)) / ranks)


def _most_bytes_per_s(link: Link) -> float:
    return max([link.bytes_per_s, *(size / took_s for size, took_s in link.transfers_s)])


# One knows, at 0. Who knows tells one after the other, a port's share apart.
def _broadcast_s(ranks: int, link: Link) -> float:
    heard_s = [link.latency_s]  # a heap: when who knows could next have told another one
    now_s = 0.0
    for _ in range(ranks - 1):
        now_s = heapq.heappop(heard_s)
        heapq.heappush(heard_s, now_s + link.port_share * link.latency_s)
        heapq.heappush(heard_s, now_s + link.latency_s)
    return now_s
