"""Where a Gantt chart draws which message: two lanes of each port, of a rank or of a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from patallreduce.pricing.messages import Message

Span = tuple[float, float]  # from the upper edge to the lower one

_PORT = 2.5  # two lanes and a gap
_RANK = 0.8  # of a node, and a gap
_MOST_NAMED = 32


class Lanes(Protocol):
    """Heights in lanes, from the top of the chart down.

    Args:
        height: Of the whole chart.
        labels: Heights and what stands beside them.
        title: Of the axis they are on; "": none.
    """

    height: float
    labels: list[tuple[float, str]]
    title: str

    def boxes(self, message: Message) -> list[float]:
        """Upper edges of the lanes in which it is a box: where it is sent and received."""

    def line(self, message: Message) -> Span | None:
        """From whom to whom it is a line instead, since it takes next to no time."""

    def of_rank(self, rank: int) -> Span:
        """Where its arrival and its finish are marked."""


class RankLanes:
    """Every rank has a port: what it sends above, what it receives below."""

    def __init__(self, ranks: int) -> None:
        self.height = ranks * _PORT
        self.title = "rank"
        if ranks <= 16:
            self.labels = [
                (rank * _PORT + lane + 0.46, text)
                for rank in range(ranks)
                for lane, text in enumerate((f"{rank} send", "receive"))
            ]
        else:
            self.title += " (upper lane: what it sends, lower: what it receives)"
            shown = range(0, ranks, -(-ranks // _MOST_NAMED))
            self.labels = [(rank * _PORT + 1, str(rank)) for rank in shown]

    def boxes(self, message: Message) -> list[float]:
        """As of Lanes."""
        return [message.sender * _PORT, message.receiver * _PORT + 1]

    def line(self, message: Message) -> Span | None:
        """As of Lanes."""
        return None

    def of_rank(self, rank: int) -> Span:
        """As of Lanes."""
        return rank * _PORT - 0.12, rank * _PORT + 2.04


class NodeLanes:
    """Every node has a port, above its ranks; what they tell each other are lines between them."""

    def __init__(self, node_of: Sequence[int]) -> None:
        self._node_of = node_of
        self._port: dict[int, float] = {}
        self._rank: dict[int, float] = {}
        self.title = ""
        self.labels = []
        at = 0.0
        for node in dict.fromkeys(node_of):
            self._port[node] = at
            self.labels += [(at + 0.46, f"node {node} sends"), (at + 1.46, "receives")]
            at += 2.2
            for rank in (rank for rank, of in enumerate(node_of) if of == node):
                self._rank[rank] = at
                self.labels.append((at + 0.3, f"rank {rank}"))
                at += _RANK
            at += 0.6
        self.height = at
        if len(self.labels) > 2 * _MOST_NAMED:
            self.labels = [(at + 1, f"node {node}") for node, at in self._port.items()]

    def boxes(self, message: Message) -> list[float]:
        """As of Lanes."""
        if self._within(message):
            return []
        return [
            self._port[self._node_of[message.sender]],
            self._port[self._node_of[message.receiver]] + 1,
        ]

    def line(self, message: Message) -> Span | None:
        """As of Lanes."""
        if not self._within(message):
            return None
        return self._rank[message.sender] + 0.3, self._rank[message.receiver] + 0.3

    def of_rank(self, rank: int) -> Span:
        """As of Lanes."""
        return self._rank[rank], self._rank[rank] + 0.6

    def _within(self, message: Message) -> bool:
        return self._node_of[message.sender] == self._node_of[message.receiver]


def slots(messages: Iterable[Message]) -> list[int]:
    """Stack those that share a port: a number from 0 on for each, alone at any time."""
    free_s: list[float] = []
    found = []
    for message in messages:  # ascending by their begin
        number = next((n for n, at_s in enumerate(free_s) if at_s <= message.begin_s), len(free_s))
        if number == len(free_s):
            free_s.append(0.0)
        free_s[number] = message.end_s
        found.append(number)
    return found
