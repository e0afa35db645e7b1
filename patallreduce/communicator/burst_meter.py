"""What a port that has rested lets through at once: found by messages after a rest."""

from __future__ import annotations

from collections.abc import Callable

from patallreduce.pricing.link import LONG_S, Link

_EMPTY_BYTES = 1
_FIRST_BYTES, _MOST_BYTES = 64 << 10, 4 << 20
_GROWTH = 4
_CLEAR = 2  # latencies that a message takes at the port's bandwidth
_LEAST_AHEAD = 1 / 8  # of a message: less is noise


def measure_burst(link: Link, rested_s: Callable[[int], float]) -> float:
    """Measure by how much a rested port is ahead of its bandwidth.

    A message that is longer than that tells it. So does one that a cache holds; but then one as
    long as it seems to be takes its time, where a port lets it through at once.

    Args:
        link: The measured one.
        rested_s: Lets all ports rest for as long as so many bytes take, sends as many through each,
            and returns how many seconds that took: the same on every rank.

    Returns:
        Bytes, as `Link.burst_bytes`; 0, too, on long ways, where nothing is to be seen of it.
    """
    if link.latency_s >= LONG_S:
        return 0.0
    empty_s = rested_s(_EMPTY_BYTES)

    def share(size: int) -> float:
        """Of the time that so many bytes take at the bandwidth."""
        return (rested_s(size) - empty_s) * link.bytes_per_s / size

    size = _FIRST_BYTES
    while size < _CLEAR * link.latency_s * link.bytes_per_s or share(size) < 1 / _GROWTH:
        size *= _GROWTH
        if size > _MOST_BYTES:
            return 0.0
    burst_bytes = size * (1 - share(size))
    if burst_bytes < max(_LEAST_AHEAD * size, link.latency_s * link.bytes_per_s):
        return 0.0
    return burst_bytes if share(int(0.9 * burst_bytes)) < 1 / 2 else 0.0
