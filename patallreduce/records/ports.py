"""Whose port is narrower than the others', since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patallreduce.records.iterations import Iteration

# Of the widest: ports that differ by less are alike, as where they are measured.
_NARROW = 1 / 1.4
_MBIT = 1e6 / 8


@dataclass(frozen=True)
class NarrowPort:
    """A port that holds up whoever sends to it or gets something from it.

    Args:
        rank: Whose.
        since: Number of the iteration since when it is so narrow, by these records.
        bytes_per_s: Its bandwidth.
        widest_bytes_per_s: That of the widest one.
    """

    rank: int
    since: int
    bytes_per_s: float
    widest_bytes_per_s: float

    def __str__(self) -> str:
        own, widest = self.bytes_per_s / _MBIT, self.widest_bytes_per_s / _MBIT
        return (
            f"rank {self.rank} has a narrow port since iteration {self.since}: "
            f"{own:.0f} Mbit/s, the widest {widest:.0f}"
        )


def narrow_ports(iterations: Sequence[Iteration]) -> tuple[NarrowPort, ...]:
    """Those that are narrow in the last iteration of which ports are known, the narrowest first."""
    known = [i for i in iterations if i.ports]
    if not known:
        return ()
    last = known[-1].ports
    widest = max(last)
    found = []
    for rank, bytes_per_s in enumerate(last):
        if bytes_per_s > _NARROW * widest:
            continue
        since = next(
            (
                later.iteration
                for earlier, later in zip(known[-2::-1], known[:0:-1], strict=True)
                if earlier.ports[rank] != bytes_per_s
            ),
            known[0].iteration,
        )
        found.append(NarrowPort(rank, since, bytes_per_s, widest))
    return tuple(sorted(found, key=lambda port: port.bytes_per_s))
