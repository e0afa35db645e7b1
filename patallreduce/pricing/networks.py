"""Networks to simulate on: the models of the literature beside `Link`, and ranks that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from patallreduce import _core
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


@dataclass(frozen=True)
class Network:
    """Links that differ between ranks, and nodes whose ranks share an uplink.

    A message between two ranks costs what the slower of both links asks for, term by term. Both
    ports are busy with it at once, and it waits for both: a port that is late to receive holds up
    what its sender has to send behind it.

    Args:
        links: One for every rank (a `Link`, `LogGP` or `PLogP`), or (P,) of them by rank.
        nodes: (P,) node of each rank, >= 0. None: no two ranks share one.
        within_node: Link between ranks of one node. None: their own.
        uplink_bytes_per_s: Bandwidth that a node's ranks share to other nodes, each direction;
            their messages take turns in it. None: unlimited.
        shared_ports: Messages of different pairs of ranks share the ports that they have in common
            evenly (max-min fair), as TCP connections do; only those of one pair take turns. False:
            all take turns. Excludes uplink_bytes_per_s.
        burst_bytes: With shared_ports: what a port that has rested lets through at once (a token
            bucket, as of virtual machines and of Linux's tc-tbf), each direction.
        call_s: What a call costs a rank's processor after its arrival, before its first step, >= 0:
            waking up, agreeing on the schedule.
        posted_before_arrival: A rank's receives are posted before it arrives, as this package's
            executor does. False: a message leaves when its receiver has arrived (rendezvous).

    Raises:
        ScheduleError: When it is used, values that are not one per rank or out of range.

    Source: single port, full duplex: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), section 3.
    """

    links: Model | Sequence[Model]
    nodes: Sequence[int] | None = None
    within_node: Model | None = None
    uplink_bytes_per_s: float | None = None
    shared_ports: bool = False
    burst_bytes: float = 0.0
    call_s: float = 0.0
    posted_before_arrival: bool = True


def native(network: Model | Network) -> _core.Network:
    """The network as the core takes it."""
    if isinstance(network, Link) and network.ports:
        network = Network(network.by_port(), shared_ports=True)
    if not isinstance(network, Network):
        network = Network(network)
    result = _core.Network()
    numbers: dict[Model, int] = {}

    def number(model: Model) -> int:
        if model not in numbers:
            numbers[model] = len(numbers)
            _add(result, model)
        return numbers[model]

    if isinstance(network.links, (Link, LogGP, PLogP)):
        number(network.links)
    else:
        result.model_of = [number(model) for model in network.links]
    if network.nodes is not None:
        result.node_of = list(network.nodes)
    if network.within_node is not None:
        result.within_node = number(network.within_node)
    if network.uplink_bytes_per_s is not None:
        if not 0 < network.uplink_bytes_per_s < float("inf"):
            raise _core.ScheduleError(
                f"network: expected uplink_bytes_per_s > 0, got {network.uplink_bytes_per_s}"
            )
        result.uplink_bytes_per_s = network.uplink_bytes_per_s
    result.burst_bytes = network.burst_bytes
    result.call_s = network.call_s
    result.shared_ports = network.shared_ports
    result.posted_before_arrival = network.posted_before_arrival
    return result


def _add(network: _core.Network, model: Model) -> None:
    if isinstance(model, Link):
        network.add_hockney(model)
    elif isinstance(model, LogGP):
        network.add_loggp(
            model.latency_s,
            model.overhead_s,
            model.gap_s,
            model.gap_per_byte_s,
            model.reduce_bytes_per_s,
        )
    else:
        network.add_plogp(
            model.latency_s,
            model.gap_s,
            model.send_overhead_s,
            model.receive_overhead_s,
            model.reduce_bytes_per_s,
        )
