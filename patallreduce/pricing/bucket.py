"""What is to be reduced, by whom and over what, and the schedule that the package would make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from patallreduce._core import Schedule, find_algorithm
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network
from patallreduce.pricing.schedules import schedule
from patallreduce.pricing.selection import segments_of

_ELEMENT_BYTES = 4  # float32: a segment has at least one

WITHIN_NODE = Link(3e-6, 20e9)  # memory: about what one copy by one core takes


@dataclass(frozen=True)
class Bucket:
    """What is to be reduced, by whom and over what.

    Args:
        ranks: P >= 1.
        message_bytes: Of the whole bucket, >= 0.
        link: Between any two nodes, whose ports may differ.
        segments: For every algorithm. None: what the package would choose for each of them.
        foreseen: Whether schedules are made for the arrivals that come; otherwise for ranks that
            arrive together.
        ranks_per_node: So many consecutive ranks share a node, and its port, >= 1.
        within_node: Link between ranks of one node.

    Raises:
        ValueError: No rank per node, or a link that has not as many ports as there are nodes.
    """

    ranks: int
    message_bytes: int
    link: Link
    segments: int | None = None
    foreseen: bool = True
    ranks_per_node: int = 1
    within_node: Link = WITHIN_NODE

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1:
            raise ValueError(f"ranks per node: expected 1 or more, got {self.ranks_per_node}")
        if self.link.ports and len(self.link.ports) != self.nodes:
            what = "nodes" if self.node_of else "ranks"
            raise ValueError(
                f"ports: expected one for each of {self.nodes} {what}, got {len(self.link.ports)}"
            )

    @property
    def nodes(self) -> int:
        """How many have a port of their own."""
        return -(-self.ranks // self.ranks_per_node)

    @property
    def node_of(self) -> list[int]:
        """(P,) the node of each rank; [] where no two share one."""
        return [
            rank // self.ranks_per_node for rank in range(self.ranks) if self.ranks_per_node > 1
        ]

    def network(self, algorithm: str) -> Link | Network:
        """What its messages take; ports are shared where many come to one rank at once."""
        shared = find_algorithm(algorithm, "all_reduce").shares_ports or self.link.shares_ports
        if not self.node_of and not shared:
            return self.link
        return Network.of_ports(
            self.link,
            self.ranks,
            nodes=self.node_of,
            within_node=self.within_node if self.node_of else None,
            shared_ports=shared,
        )


class Parameters(TypedDict):
    """What an all-reduce's schedule is made from, beside ranks and arrivals: see `schedule`."""

    segments: int
    nodes: list[int] | None
    ports: list[int] | None
    segment_time_s: float
    latency_s: float
    sum_s: float


def parameters(algorithm: str, bucket: Bucket) -> Parameters:
    """Settle what the schedule of this bucket is made from, as patallreduce/calls.py does."""
    found, node_of = find_algorithm(algorithm, "all_reduce"), bucket.node_of
    nodes = node_of if found.by_node else []
    ports = bucket.link.widths if found.by_port else []
    if ports and node_of:
        ports = [ports[node] for node in node_of]
    ranks, message_bytes = bucket.ranks, bucket.message_bytes
    parts = bucket.nodes if nodes else ranks
    segments = bucket.segments
    if segments is None:
        size = (message_bytes, max(message_bytes // _ELEMENT_BYTES, 1))
        segments = segments_of(algorithm, "all_reduce", ranks, *size, link=bucket.link, nodes=nodes)
    times = found.times(parts, segments, message_bytes, False, None, lambda: bucket.link)
    return {"segments": segments, "nodes": nodes or None, "ports": ports or None, **times}


def make_schedule(algorithm: str, bucket: Bucket, arrivals_s: Sequence[float]) -> Schedule:
    """Make the schedule that an all-reduce of this bucket would run if these were its arrivals.

    Raises:
        ScheduleError: There is no such algorithm, or it cannot do it.
    """
    made_from = parameters(algorithm, bucket)
    # Of a dynamic one ranks take their places as they arrive, whatever was foreseen.
    foreseen = bucket.foreseen or find_algorithm(algorithm, "all_reduce").dynamic
    return schedule(
        algorithm, bucket.ranks, arrivals_s=arrivals_s if foreseen else None, **made_from
    )
