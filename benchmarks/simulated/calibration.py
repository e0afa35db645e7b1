"""The network as the simulator takes it, from a few timed calls: none of them is a cell.

`pat.calibrate` sees rings that follow each other, so that processors are awake and ports are never
at rest. What it cannot see is measured by calls after a rest, all ranks at a time, as cells are:

    rate      two long rings: their difference in bytes over that in time
    overhead  a ring of many tiny messages, one behind the other
    latency   a ring of one tiny message at a time: 2(P-1) hops ...
    call      ... and recursive_doubling of the same: log2 P hops, and the same call
    burst     recursive_doubling of a message that a port's tokens carry in part

All but the rate are found by simulation, in turns until they agree: that value with which the
simulator gives the median that was measured, under the arrivals that there were. The speed of sums
is that of `pat.calibrate`. Each size is simulated with what was found right before and right after
it, since the machine is not equally busy all the time. Nothing depends on the algorithm.

Source: Culler, Liu, Martin, Yoshikawa, IEEE Micro 16 (1996), for telling overhead from latency.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.lab.plan import Record
from patallreduce.pricing.link import Link
from patallreduce.pricing.models import LogGP
from patallreduce.pricing.networks import Network

from .cells import elapsed_s, simulated_s


class Call(NamedTuple):
    """A timed call; segments None: what the package chooses."""

    algorithm: str
    message_bytes: int
    segments: int | None
    iterations: int


CALLS = {
    "tiny_ring": Call("ring", 1 << 10, None, 9),
    "tiny_doubling": Call("recursive_doubling", 1 << 10, None, 9),
    "pieces": Call("ring", 16 << 10, 256, 3),
    "tokens": Call("recursive_doubling", 48 << 10, None, 5),
    "short": Call("ring", 512 << 10, None, 1),
    "long": Call("ring", 2 << 20, None, 1),
}
_MOST_S = {"overhead_s": 1e-3, "latency_s": 2e-3, "call_s": 20e-3, "burst_s": 20e-3}
_FOUND_BY = {
    "overhead_s": "pieces",
    "latency_s": "tiny_ring",
    "call_s": "tiny_doubling",
    "burst_s": "tokens",
}
_LEAST_BYTE_S = 1e-12
_TURNS = 6
_HALVINGS = 18


def link_of(record: Record) -> Link:
    """The link of `pat.calibrate`, as a calibration's record has it."""
    fields = record["link"]
    return Link(**{**fields, "transfers_s": tuple(map(tuple, fields["transfers_s"]))})


def fitted(records: Sequence[Record]) -> Network:
    """Find the network with which the simulator gives a calibration's calls.

    Args:
        records: Of worker.py, at least one for each of CALLS, which it is named after.
    """
    calls = {name: _together([r for r in records if r["call"] == name]) for name in CALLS}
    short, long = calls["short"], calls["long"]
    sent_bytes = 2 * (long["ranks"] - 1) / long["ranks"] * (long["bytes"] - short["bytes"])
    # On a busy machine a long message may seem to take less than a short one.
    byte_s = max((elapsed_s(long) - elapsed_s(short)) / sent_bytes, _LEAST_BYTE_S)
    found = dict.fromkeys(_FOUND_BY, 1e-5)
    reduce_bytes_per_s = long["reduce_bytes_per_s"]
    for _ in range(_TURNS):
        for name, call in _FOUND_BY.items():
            falls = name == "burst_s"  # the more tokens, the sooner it is over
            low_s, high_s = 0.0, _MOST_S[name]
            for _ in range(_HALVINGS):
                found[name] = (low_s + high_s) / 2
                network = _network(found, byte_s, reduce_bytes_per_s)
                simulated = statistics.median(simulated_s(calls[call], network, 0.0))
                if (simulated > elapsed_s(calls[call])) == falls:
                    low_s = found[name]
                else:
                    high_s = found[name]
    return _network(found, byte_s, reduce_bytes_per_s)


def _network(found: dict[str, float], byte_s: float, reduce_bytes_per_s: float) -> Network:
    # L + o > 0 even where nothing of it can be seen.
    latency_s = max(found["latency_s"], 1e-7)
    return Network(
        LogGP(latency_s, found["overhead_s"], 0.0, byte_s, reduce_bytes_per_s),
        shared_ports=True,
        burst_bytes=found["burst_s"] / byte_s,
        call_s=found["call_s"],
    )


def _together(records: Sequence[Record]) -> Record:
    """One record with the samples of all."""
    return {**records[0], "samples": [s for record in records for s in record["samples"]]}
