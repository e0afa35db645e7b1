"""How wide each rank's port is, where ports differ: found by rings of neighbours.

A message between two ranks is as slow as the narrower of their ports. So a rank's port is as wide
as the fastest of its pairs, once it has been next to a rank with a wide one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

# Ports whose bandwidths differ by less are alike: noise where ranks share a few cores.
_ALIKE = 1.4
_MOST_RINGS = 8

# Of a ring in that order, bytes a second to each rank from the one before it.
PairRates = Callable[[Sequence[int]], Sequence[float]]


def measure_ports(pair_rates: PairRates, count: int) -> list[float]:
    """Measure ports by some rings: two where all are alike.

    Args:
        pair_rates: Measures a ring; gives the same on every rank.
        count: How many ports, 1 or more.

    Returns:
        (count,) bytes a second of each; [] where they are alike, or fewer than three, which cannot
        be told apart.
    """
    if count < 3:
        return []
    widest = [0.0] * count  # found so far

    def ring(order: Sequence[int]) -> None:
        for place, rate in enumerate(pair_rates(order)):
            for port in (order[place - 1], order[place]):
                widest[port] = max(widest[port], rate)

    everyone = list(range(count))
    ring(everyone)
    ring(everyone[::2] + everyone[1::2])
    proven: set[int] = set()  # have been next to a wide one
    for _ in range(_MOST_RINGS):
        wide = [port for port in everyone if widest[port] * _ALIKE >= max(widest)]
        others = [port for port in everyone if port not in wide and port not in proven]
        if not others:
            break
        order = _around(wide, others)
        order += [port for port in everyone if port not in order]
        ring(order)
        proven.update(others[: 2 * len(wide)])
    if max(widest) <= _ALIKE * min(widest):
        return []
    return [max(widest) if rate * _ALIKE >= max(widest) else rate for rate in widest]


def pair_rate(long_bytes: int, long_s: float, short_s: float, latency_s: float) -> float:
    """Bytes a second between two ranks, by two messages between them.

    Their difference leaves out what both have once: latency, and bytes that a rested port lets
    through at once. It cannot be less than the long message's time on the wire says: where it is,
    the short message was disturbed, and the pair would seem faster than it is.

    Args:
        long_bytes: Size of the long message; the short one has a quarter of it.
        long_s: Seconds of the long message.
        short_s: Seconds of the short message.
        latency_s: Seconds of an empty message.
    """
    return 0.75 * long_bytes / max(long_s - short_s, 0.75 * (long_s - latency_s), long_s / 4)


def _around(wide: Sequence[int], others: Sequence[int]) -> list[int]:
    """Two of the others around each wide one, as far as there are."""
    order: list[int] = []
    for place, port in enumerate(wide):
        before, after = others[2 * place : 2 * place + 1], others[2 * place + 1 : 2 * place + 2]
        order += [*before, port, *after]
    return order
