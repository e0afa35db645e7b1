"""The link between ranks: what it costs to send a message, measured once per communicator."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from patallreduce import _core


@dataclass(frozen=True)
class Link:
    """Cost of a message between any two ranks: ``latency_s + bytes / bytes_per_s``.

    Args:
        latency_s: Seconds from sending an empty message to having it, software included, > 0.
        bytes_per_s: Bandwidth between two ranks, each direction, > 0; that of a rank's port, if
            `partners` is 1.
        reduce_bytes_per_s: Received bytes that one rank sums per second, > 0.
        transfers_s: Bandwidth as a function of size: measured (bytes, seconds without latency),
            ascending, > 0; linear between two sizes and from 0 to the first, beyond the last by
            `bytes_per_s`. Empty: ``bytes / bytes_per_s``.
        port_share: Share of the latency, 0 to 1, that occupies a simulated port; during the rest
            the next message can leave. 1 is Hockney's model to the letter; segments that follow
            each other were measured to overlap most of their latency (slt.cpp).
        change_share: Share of the latency, 0 to 1, for which a port that a message has begun to
            pass cannot begin with one of another partner, besides. Of closed forms only direct
            exchange's knows it.
        ports: (P,) bandwidth of each rank's port (of each node's, where ranks share any) over that
            of the narrowest, which `bytes_per_s` and `transfers_s` are of. Empty: alike.
        partners: With how many other ranks at once a rank's port is full, >= 1: its bandwidth over
            `bytes_per_s`. More than 1 where something limits a single connection: a cloud, or TCP's
            window on a long way.
        burst_bytes: What a port that has rested lets through at once, each direction, >= 0: a token
            bucket, as of virtual machines, containers and of Linux's tc-tbf.
        processors: How many processors all ranks share, where no port but processors move messages,
            half of each at either end, and sums wait for them, too: shared memory. Then times and
            bandwidths are those of a message that has them for itself. 0: ports move them.

    Raises:
        ValueError: A value is not a number > 0, `transfers_s` is not ascending, the least of
            `ports` is not 1, `partners` is less, `burst_bytes` is no number >= 0, or `processors`
            no whole one.

    Source: Hockney, Parallel Computing 20 (1994), 389-398.
    """

    latency_s: float
    bytes_per_s: float
    reduce_bytes_per_s: float = 5e9
    transfers_s: tuple[tuple[float, float], ...] = ()
    port_share: float = 0.25
    change_share: float = 0.0
    ports: tuple[float, ...] = ()
    partners: float = 1.0
    burst_bytes: float = 0.0
    processors: int = 0

    def __post_init__(self) -> None:
        for name in ("latency_s", "bytes_per_s", "reduce_bytes_per_s"):
            _positive(name, getattr(self, name))
        for name in ("port_share", "change_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"Link.{name}: expected 0 to 1, got {getattr(self, name)}")
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
        for port in self.ports:
            _positive("ports", port)
        if self.ports and min(self.ports) != 1:
            raise ValueError(f"Link.ports: expected 1 for the narrowest, got {min(self.ports)}")
        if not 1 <= self.partners < float("inf"):
            raise ValueError(f"Link.partners: expected 1 or more, got {self.partners}")
        if not 0 <= self.burst_bytes < float("inf"):
            raise ValueError(f"Link.burst_bytes: expected 0 or more, got {self.burst_bytes}")
        if type(self.processors) is not int or self.processors < 0:
            raise ValueError(f"Link.processors: expected 0 or more, got {self.processors!r}")

    @property
    def widths(self) -> list[int]:
        """Whole numbers that compare the ports; none where all are alike."""
        return _core.port_widths(self.ports)

    @property
    def shares_ports(self) -> bool:
        """Whether messages to several ranks cost anything else at once than in turn."""
        return bool(self.ports) or self.partners > 1

    def by_port(self) -> list[Link]:
        """(P,) links, one of each port, that have no others; [] where all are alike."""
        return [
            replace(
                self,
                bytes_per_s=self.bytes_per_s * port,
                transfers_s=tuple((size, seconds / port) for size, seconds in self.transfers_s),
                ports=(),
            )
            for port in self.ports
        ]

    def transfer_s(self, message_bytes: float) -> float:
        """Seconds to move `message_bytes` from one rank to another (M * beta, without latency)."""
        return _core.transfer_s(message_bytes, self)


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"Link.{name}: expected a number > 0, got {value}")


LONG_S = 1e-3  # most of a longer latency is the wire's
_EMPTY_BYTES = 1
_FIRST_BYTES = 4 * 1024
_LEAST_BYTES = 1024 * 1024  # shorter ones a rested port may let through at once
_MOST_BYTES = 64 * 1024 * 1024
_LONGEST_S = 0.5  # of a message, unless the latency hides shorter ones
_CLEAR = 4  # a message that takes so many latencies tells the bandwidth
_STEADY = 1.25  # two rates are one if they differ by less
_REPEATS = 3
_MORE_REPEATS = 7  # while they take less than this in all
_MOST_REPEATS = 40  # of what all ranks send at once: the least of few differs by half
_SHORT_S = 0.05


def measure(
    message_s: Callable[[int], float],
    reduce_bytes_per_s: float,
    hop_s: Callable[[], float] | None = None,
) -> Link:
    """Measure the link by messages of growing size.

    An empty message gives the latency, with everything that a message costs on this machine. Where
    that is short, many in a row tell it, of which what a call costs besides is no part; they are
    sent at the end, when whatever starts beside the measurement has started. Sizes grow until
    the transfer takes several times the latency, whatever that is, and until what a longer message
    adds per byte stays the same: a port that has rested may let the first bytes through at once
    (token buckets, as of virtual machines). That is the bandwidth; the sizes before give the
    transfers by size, none of which is faster: what a rested port lets through at once, or a cache
    holds, it does not one message behind the other.

    Args:
        message_s: Sends messages of so many bytes on all ranks, all ports busy in both directions,
            and returns how many seconds one of them took: the same on every rank, so that all take
            the same decisions.
        reduce_bytes_per_s: As in `Link`, of the slowest rank.
        hop_s: Sends many empty messages, each when the one before is there, and returns how many
            seconds one took. None: an empty one by itself tells the latency.
    """

    def best_s(message_bytes: int) -> float:
        return _least_s(lambda: message_s(message_bytes), _MORE_REPEATS)

    empty_s = best_s(_EMPTY_BYTES)
    sizes, seconds = [_EMPTY_BYTES], [empty_s]
    rates: list[float] = []  # bytes added per second added, from each size to the next
    message_bytes = _FIRST_BYTES
    while True:
        sizes.append(message_bytes)
        seconds.append(best_s(message_bytes))
        added_s = max(seconds[-1] - seconds[-2], seconds[-1] * 1e-3)  # noise, at the worst
        rates.append((sizes[-1] - sizes[-2]) / added_s)
        clear = seconds[-1] >= _CLEAR * empty_s
        steady = len(rates) > 1 and 1 / _STEADY < rates[-1] / rates[-2] < _STEADY
        growth = 4 if seconds[-1] > 1.25 * empty_s else 16
        too_long = clear and growth * seconds[-1] > _LONGEST_S
        enough = clear and steady and message_bytes >= _LEAST_BYTES
        if enough or too_long or message_bytes * growth > _MOST_BYTES:
            break
        message_bytes *= growth
    latency_s = empty_s
    if empty_s < LONG_S:
        empty_s = latency_s = min(empty_s, best_s(_EMPTY_BYTES))
        if hop_s is not None:
            latency_s = min(latency_s, _least_s(hop_s, _MORE_REPEATS))

    transfers_s: list[tuple[float, float]] = []
    shortest_s = float("inf")
    for size, took_s in zip(reversed(sizes[1:]), reversed(seconds[1:]), strict=True):
        if transfers_s and took_s < 2 * empty_s:
            break  # mostly latency: the difference would be noise
        shortest_s = min(shortest_s, max(took_s - empty_s, took_s * 1e-3))
        # Less never takes longer, nor less than its share of a long message.
        transfers_s.insert(0, (float(size), max(shortest_s, size / rates[-1])))
    return Link(latency_s, rates[-1], reduce_bytes_per_s, tuple(transfers_s))


_PIECES = 64
_PIECE_BYTES = 64
_SETTLED = 0.9  # of the time before


def _open_windows(again_s: Callable[[], float]) -> None:
    """Repeat an exchange until it takes no less: connections that rested open their windows."""
    last_s = math.inf
    for _ in range(_MORE_REPEATS):
        took_s = again_s()
        if took_s > _SETTLED * last_s:
            break
        last_s = took_s


def _least_s(once_s: Callable[[], float], most: int) -> float:
    """Of some repeats, of more where they are short."""
    seconds = [once_s() for _ in range(_REPEATS)]
    while len(seconds) < most and sum(seconds) < _SHORT_S:
        seconds.append(once_s())
    return min(seconds)


def measure_port_share(link: Link, round_s: Callable[[int, int], float]) -> float:
    """Measure which share of the latency occupies a port: by many tiny messages at once.

    c messages, one behind the other, take as long as a port needs for them, and the last one the
    rest of its latency: ``c * (port_share * latency_s + transfer_s) + (1 - port_share) *
    latency_s``. Tiny ones leave the latency.

    Args:
        link: The measured one, whose port_share is not looked at.
        round_s: As `message_s` of `measure`, of so many bytes in so many messages.

    Returns:
        0 to 1, as `Link.port_share`.
    """

    def again_s() -> float:
        return round_s(_PIECES * _PIECE_BYTES, _PIECES)

    _open_windows(again_s)
    seconds = min(again_s() for _ in range(_REPEATS))
    seconds -= min(round_s(_EMPTY_BYTES, 1) for _ in range(_REPEATS))  # what a call costs, too
    each_s = (seconds - _PIECES * link.transfer_s(_PIECE_BYTES)) / (_PIECES - 1)
    return min(max(each_s / link.latency_s, 0.0), 1.0)


def measure_change_share(
    link: Link, ranks: int, swap_s: Callable[[int], float], round_s: Callable[[int, int], float]
) -> float:
    """Measure what it costs a port to change partners: by tiny messages to all others at once.

    Args:
        link: The measured one, whose change_share is not looked at.
        ranks: P, 3 or more.
        swap_s: As of `measure_partners`.
        round_s: As of `measure_port_share`, of two rounds: there is half of what a call takes.

    Returns:
        0 to 1, as `Link.change_share`.
    """
    seconds = _least_s(lambda: swap_s(_PIECE_BYTES), _MOST_REPEATS)
    seconds -= 2 * (_least_s(lambda: round_s(_EMPTY_BYTES, 1), _MOST_REPEATS) - link.latency_s)
    change_s = (seconds - link.latency_s) / (ranks - 2)
    return min(max(change_s / link.latency_s - link.port_share, 0.0), 1.0)


_SEVERAL = 1.4  # fewer partners are noise, where ranks share a few cores


def measure_partners(link: Link, ranks: int, swap_s: Callable[[int], float]) -> float:
    """Measure with how many others at once a rank's port is full: by a block for each of them.

    The difference of two sizes leaves out the latency, and what a rested port lets through at once.

    Args:
        link: The measured one, of ports that are alike.
        ranks: P, 3 or more.
        swap_s: Swaps blocks of so many bytes between any two ranks, all at once, and returns how
            many seconds that took: the same on every rank.

    Returns:
        1 to P - 1, as `Link.partners`; 1, too, where one connection nearly fills a port.
    """
    others = ranks - 1
    most_bytes = max(_LEAST_BYTES, others * link.latency_s * link.bytes_per_s)
    block_bytes = int(min(most_bytes, _MOST_BYTES) / others)
    _open_windows(lambda: swap_s(block_bytes))
    long_s, short_s = (
        statistics.median(swap_s(size) for _ in range(_REPEATS))
        for size in (block_bytes, block_bytes // 2)
    )
    half_s = block_bytes / 2 / link.bytes_per_s  # of one block: there is nothing faster
    # Where the short ones were disturbed, long ones would seem faster than they are.
    longer_s = max(long_s - short_s, (long_s - link.latency_s) / 2, half_s)
    found = others * half_s / longer_s
    return found if found > _SEVERAL else 1.0
