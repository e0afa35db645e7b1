"""The network as the simulator takes it, from a few timed calls: none of them is a cell.

`pat.calibrate` sees rings that follow each other, so that processors are awake and ports are never
at rest. What it cannot see is measured by calls after a rest, all ranks at a time, as cells are:

    rate      two long rings: their difference in bytes over that in time
    call      tiny messages over 2(P-1) hops (ring) and log2 P hops (recursive_doubling) ...
    latency   ... tell what a call costs from what a hop costs
    burst     recursive_doubling of a message that a port's tokens carry in part

The last three are found by simulation: that value with which the simulator gives the median that
was measured, under the arrivals that there were. port_share and the speed of sums are those of
`pat.calibrate`. Nothing depends on the algorithm that is simulated later.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from patallreduce.link import Link
from patallreduce.networks import Network

from .simulated_cells import elapsed_s, simulated_s

Record = dict[str, Any]

# Algorithm, bytes, iterations.
CALLS = (
    ("ring", 256, 15),
    ("recursive_doubling", 256, 15),
    ("recursive_doubling", 48 << 10, 9),
    ("ring", 512 << 10, 5),
    ("ring", 2 << 20, 5),
)
_MOST_CALL_S, _MOST_LATENCY_S, _MOST_BURST_S = 20e-3, 2e-3, 20e-3
_ROUNDS = 30


def link_of(record: Record) -> Link:
    """The link of `pat.calibrate`, as a calibration's record has it."""
    fields = record["calibration"]["link"]
    return Link(**{**fields, "transfers_s": tuple(map(tuple, fields["transfers_s"]))})


def fitted(record: Record) -> Network:
    """Find the network with which the simulator gives a calibration's calls.

    Args:
        record: The first of simulated_worker.py.
    """
    calls = {(call["algorithm"], call["bytes"]): call for call in record["calibration"]["calls"]}
    tiny_ring, tiny_doubling, doubling, short, long = (calls[name, b] for name, b, _ in CALLS)
    ranks = long["ranks"]
    sent_bytes = 2 * (ranks - 1) / ranks * (long["bytes"] - short["bytes"])
    bytes_per_s = sent_bytes / (elapsed_s(long) - elapsed_s(short))
    link = replace(link_of(record), bytes_per_s=bytes_per_s, transfers_s=())

    def network(latency_s: float, call_s: float, burst_s: float = 0.0) -> Network:
        return Network(
            replace(link, latency_s=latency_s),
            shared_ports=True,
            burst_bytes=burst_s * bytes_per_s,
            call_s=call_s,
        )

    def gives(call: Record, made: Network) -> bool:
        """Whether a simulation takes at least as long as it took."""
        return statistics.median(simulated_s(call, made, 0.0)) >= elapsed_s(call)

    def call_s(latency_s: float) -> float:
        return _least(_MOST_CALL_S, lambda s: gives(tiny_doubling, network(latency_s, s)))

    latency_s = _least(_MOST_LATENCY_S, lambda s: gives(tiny_ring, network(s, call_s(s))))
    latency_s = max(latency_s, 1e-6)
    found_s = call_s(latency_s)
    burst_s = _MOST_BURST_S - _least(
        _MOST_BURST_S, lambda s: gives(doubling, network(latency_s, found_s, _MOST_BURST_S - s))
    )
    return network(latency_s, found_s, burst_s)


def _least(most: float, holds: Callable[[float], bool]) -> float:
    """The least value from 0 to `most` for which `holds`, which holds for all above it."""
    low, high = 0.0, most
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
