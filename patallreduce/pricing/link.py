"""The link between ranks: what it costs to send a message, measured once per communicator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from patallreduce import _core


@dataclass(frozen=True)
class Link:
    """Cost of a message between any two ranks: ``latency_s + bytes / bytes_per_s``.

    Args:
        latency_s: Seconds from sending an empty message to having it, software included, > 0.
        bytes_per_s: Bandwidth of one rank's port, each direction, > 0.
        reduce_bytes_per_s: Received bytes that one rank sums per second, > 0.
        transfers_s: Bandwidth as a function of size: measured (bytes, seconds without latency),
            ascending, > 0; linear between two sizes and from 0 to the first, beyond the last by
            `bytes_per_s`. Empty: ``bytes / bytes_per_s``.
        port_share: Share of the latency, 0 to 1, that occupies a simulated port; during the rest
            the next message can leave. 1 is Hockney's model to the letter; segments that follow
            each other were measured to overlap most of their latency (slt.cpp).

    Raises:
        ValueError: A value is not a number > 0, or `transfers_s` is not ascending.

    Source: Hockney, Parallel Computing 20 (1994), 389-398.
    """

    latency_s: float
    bytes_per_s: float
    reduce_bytes_per_s: float = 5e9
    transfers_s: tuple[tuple[float, float], ...] = ()
    port_share: float = 0.25

    def __post_init__(self) -> None:
        for name in ("latency_s", "bytes_per_s", "reduce_bytes_per_s"):
            _positive(name, getattr(self, name))
        if not 0 <= self.port_share <= 1:
            raise ValueError(f"Link.port_share: expected 0 to 1, got {self.port_share}")
        previous_bytes = 0.0
        for message_bytes, seconds in self.transfers_s:
            _positive("transfers_s", message_bytes)
            _positive("transfers_s", seconds)
            if message_bytes <= previous_bytes:
                raise ValueError(
                    f"Link.transfers_s: expected ascending sizes, got {message_bytes} bytes "
                    f"after {previous_bytes}"
                )
            previous_bytes = message_bytes

    def transfer_s(self, message_bytes: int) -> float:
        """Seconds to move `message_bytes` from one rank to another (M * beta, without latency)."""
        return _core.transfer_s(message_bytes, self)


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"Link.{name}: expected a number > 0, got {value}")


_SMALL_BYTES = 1024
_SHORT_BYTES = (4 * 1024, 16 * 1024)
_FIRST_BYTES = 64 * 1024
_MOST_BYTES = 8 * 1024 * 1024
_LONG_S = 10e-3  # long against timer and scheduling noise
_ROUNDS = 3


def measure(ranks: int, ring_s: Callable[[int], float], reduce_bytes_per_s: float) -> Link:
    """Measure the link by rings of growing size.

    A ring of M bytes takes 2(P-1) hops of ``latency_s + (M / P) / bytes_per_s``: a small message
    gives the latency, with everything that a hop costs on this machine, and a long one the
    bandwidth of all ports busy at once. Those between give the transfers by size.

    Args:
        ranks: P >= 2.
        ring_s: Runs one ring all-reduce of so many bytes on all ranks, with one segment per rank,
            and returns how many seconds it took on the slowest rank: the same on every rank, so
            that all take the same decisions.
        reduce_bytes_per_s: As in `Link`, of the slowest rank.
    """
    hops = 2 * (ranks - 1)

    def best_s(message_bytes: int) -> float:
        return min(ring_s(message_bytes) for _ in range(_ROUNDS))

    latency_s = best_s(_SMALL_BYTES) / hops
    measured_s = {message_bytes: best_s(message_bytes) for message_bytes in _SHORT_BYTES}
    message_bytes = _FIRST_BYTES
    measured_s[message_bytes] = seconds = best_s(message_bytes)
    while seconds < _LONG_S and message_bytes < _MOST_BYTES:
        message_bytes *= 2
        measured_s[message_bytes] = seconds = best_s(message_bytes)

    transfers_s: list[tuple[float, float]] = []
    longest_s = float("inf")
    for message_bytes, seconds in sorted(measured_s.items(), reverse=True):
        if message_bytes < _FIRST_BYTES and seconds < 2 * hops * latency_s:
            break  # mostly latency: the difference would be noise
        moving_s = max(seconds - hops * latency_s, seconds / 2) / hops
        longest_s = min(longest_s, moving_s)  # noise: less never takes longer
        transfers_s.insert(0, (message_bytes / ranks, longest_s))
    bytes_per_s = _rate_of_the_long(transfers_s)
    return Link(latency_s, bytes_per_s, reduce_bytes_per_s, tuple(transfers_s))


# A port that has rested may let the first bytes through at once (token buckets, as of virtual
# machines): 28 MB/s instead of 24 by the longest ring alone, emulated network of 200 Mbit/s.
def _rate_of_the_long(transfers_s: list[tuple[float, float]]) -> float:
    """What is added per second between the two longest; noise may at most halve the rate."""
    part_bytes, part_s = transfers_s[-1]
    average = part_bytes / part_s
    if len(transfers_s) == 1:
        return average
    less_bytes, less_s = transfers_s[-2]
    return max((part_bytes - less_bytes) / max(part_s - less_s, part_s / 2), average / 2)


_PIECES = 32
_PIECE_BYTES = 64


def measure_port_share(ranks: int, link: Link, ring_s: Callable[[int, int], float]) -> float:
    """Measure which share of the latency occupies a port: by a ring of many tiny messages.

    A ring whose parts are cut into c pieces takes 2(P-1) rounds, each as long as a port needs for
    its c messages: ``c * (port_share * latency_s + transfer_s)``. Tiny pieces leave the latency.

    Args:
        ranks: P >= 2.
        link: The measured one, whose port_share is not looked at.
        ring_s: Runs one ring all-reduce of so many bytes in so many segments, as in `measure`.

    Returns:
        0 to 1, as `Link.port_share`. A round takes one latency at least, so that shares below 1/c
        are told as 1/c (c = 32).
    """
    segments = ranks * _PIECES
    seconds = min(ring_s(segments * _PIECE_BYTES, segments) for _ in range(_ROUNDS))
    message_s = seconds / (2 * (ranks - 1)) / _PIECES
    share = (message_s - link.transfer_s(_PIECE_BYTES)) / link.latency_s
    return min(max(share, 0.0), 1.0)
