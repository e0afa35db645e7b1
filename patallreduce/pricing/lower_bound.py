"""What no all-reduce can beat: lower bounds on when ranks have their results."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from patallreduce import _core
from patallreduce._core import ScheduleError
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network
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
    link: Link | Network,
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
    * What leaves the last rank within the last two latencies is too late for anybody to pass it on:
      it goes to each of the P - 1 others from there. So a bucket needs ``W + alpha + (P - 2) *
      min(W, alpha / (P - 1))`` after the arrival: two latencies, nearly, of what is long.
    * At the last arrival T of a bucket consider that bucket and all whose last arrival is later. Of
      their data a rank has not sent ``u`` seconds. Where k ranks still hold their own contribution,
      k - 1 messages are needed to bring them together and P - 1 to spread the result; P ports share
      them: ``T + (sum u + (P - 2) sum W) / P``, and a message's flight. For one bucket and ranks
      that arrive together that is ring's 2 (P - 1) / P * W.

    Where ports differ, W is that of the rank's own port, and all ports together move what P ports
    of one rate did: from ranks that arrive together 2 (P - 1) messages over the sum of the rates.
    Ranks that share a node's uplink are bounded as one rank, as late as the node's last: whatever
    the others send before, the last one's data has still to leave, and each other node's to come.

    Where processors move messages, each end has half of the work, so W is half as long; and all
    processors together move no more than one each. While the last message flies they receive.

    What a port that has rested lets through at once is taken off: once, as it comes back no faster
    than the port works.

    Sums are free here. The bounds are not always attainable; the third cannot be where late ranks
    must take others' contributions and results at once.

    Args:
        link: Between any two ranks; or a network of links, whose ports messages are taken to
            share without loss.
        message_bytes: Of the whole bucket, >= 0; or (buckets,) of each.
        arrivals_s: (P,) seconds on one clock, finite; or (buckets, P).

    Raises:
        ScheduleError: No arrivals, or not as many rows as buckets, or rows that differ in length,
            or a network that has not as many links or nodes as there are ranks, or other models.
        TypeError: A number has the wrong type.

    Source: Patarasuk, Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124, for the bytes; Harary,
        Schwenk, J. Franklin Inst. 297 (1974), 491-495, for 2 (P - 1) one-way messages; Bar-Noy,
        Kipnis, Math. Systems Theory 27 (1994), 431-452, for the postal model.
    """
    sizes, rows = _buckets(message_bytes, arrivals_s)
    if isinstance(link, Network):
        finish_s, last_finish_s = _of_network(link, sizes, rows)
    else:
        burst_s = link.transfer_s(link.burst_bytes)
        finish_s, last_finish_s = _core.lower_bound(link, sizes, rows, [], burst_s)
    arrived_s = [max(column) for column in zip(*rows, strict=True)]
    average_s = (sum(finish_s) - sum(arrived_s)) / len(finish_s)
    return Bound(tuple(finish_s), last_finish_s, average_s)


def _of_network(
    network: Network, sizes: list[int], rows: list[list[float]]
) -> tuple[list[float], float]:
    """The same as of a link, of the ports of its nodes."""
    ranks = len(rows[0])
    links = [network.links] * ranks if isinstance(network.links, Link) else network.links
    nodes = range(ranks) if network.nodes is None else network.nodes
    if not isinstance(links, Sequence) or not all(isinstance(one, Link) for one in links):
        raise ScheduleError(f"lower bound: expected a network of Links, got {network.links!r}")
    for name, values in (("links", links), ("nodes", nodes)):
        if len(values) != ranks:
            raise ScheduleError(f"lower bound: expected {ranks} {name}, got {len(values)}")
    of = cast("Sequence[Link]", links)
    burst_s = of[0].transfer_s(network.burst_bytes or of[0].burst_bytes)
    ports: dict[int, float] = {}
    for node, one in zip(nodes, of, strict=True):
        fastest = max([one.bytes_per_s, *(b / seconds for b, seconds in one.transfers_s)])
        partners = one.partners if burst_s else min(one.partners, max(ranks - 1, 1))
        ends = 2 if one.processors else 1
        ports[node] = ports.get(node, 0.0) + fastest * partners * ends
    if (uplinks := network.uplink_bytes_per_s) is not None:
        ports = {
            node: min(port, uplinks[node] if isinstance(uplinks, Sequence) else uplinks)
            for node, port in ports.items()
        }
    by_node = [
        [max(s for s, of_rank in zip(row, nodes, strict=True) if of_rank == node) for node in ports]
        for row in rows
    ]
    quickest = min(of, key=lambda one: one.latency_s)
    finish_s, last_finish_s = _core.lower_bound(
        quickest, sizes, by_node, list(ports.values()), burst_s
    )
    numbers = {node: number for number, node in enumerate(ports)}
    return [finish_s[numbers[node]] for node in nodes], last_finish_s


def _buckets(
    message_bytes: int | Sequence[int], arrivals_s: Sequence[float] | Sequence[Sequence[float]]
) -> tuple[list[int], list[list[float]]]:
    """Return by bucket its bytes and arrivals."""
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
    return sizes, rows
