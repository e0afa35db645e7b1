"""Jobs drawn at random: how many ranks and buckets, over which link, who is late."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.training.patterns import PATTERNS, factors, lateness
from patallreduce import Link

NOBODY = "none"
ELEMENT_BYTES = 4
RANKS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)
OFTEN = (8, 16)
# That a message occupies a port beyond its bytes, however long its way is: assumed, as if near.
_MESSAGE_S = 25e-6


@dataclass(frozen=True)
class Cell:
    """One job.

    Args:
        ranks: P.
        buckets: Of equal size, ready one after the other in the last two thirds of an iteration.
        bucket_elements: Of each.
        latency_s: Of the link.
        bytes_per_s: Of the link.
        compute_s: Of a rank that is not late, until its last bucket is ready.
        pattern: Who is late: of benchmarks/training/patterns.py, or nobody.
        delay_s: By how much, at most.
        jitter: Standard deviation of every computation, as a share of it.
        seed: Of what is drawn while the job runs.
        port_share: Of the link.
        barrier: No rank computes before all have their last results.
    """

    ranks: int
    buckets: int
    bucket_elements: int
    latency_s: float
    bytes_per_s: float
    compute_s: float
    pattern: str
    delay_s: float
    jitter: float
    seed: int
    port_share: float = Link.port_share
    barrier: bool = False

    @property
    def link(self) -> Link:
        """Between any two ranks."""
        return Link(self.latency_s, self.bytes_per_s, 5e9, port_share=self.port_share)

    @property
    def ring_s(self) -> float:
        """What a ring of all its gradients takes, without latency."""
        message_bytes = ELEMENT_BYTES * self.bucket_elements * self.buckets
        return 2 * (1 - 1 / self.ranks) * message_bytes / self.bytes_per_s

    def computes_s(self, iterations: int) -> list[list[float]]:
        """(iterations, P) seconds from a rank's last result to its last bucket."""
        drawn = random.Random(self.seed)
        rows = []
        for iteration in range(iterations):
            late = [0.0] * self.ranks
            if self.pattern != NOBODY:
                late = lateness(self.pattern, iteration, self.ranks)
            own = factors(self.jitter, self.ranks, drawn)
            rows.append(
                [
                    self.compute_s * share + self.delay_s * by
                    for share, by in zip(own, late, strict=True)
                ]
            )
        return rows


def draw(seed: int, most_ranks: int) -> Cell:
    """Draw one: the same for the same seed."""
    drawn = random.Random(seed)
    ranks = drawn.choice([p for p in sorted(RANKS + OFTEN) if p <= most_ranks])
    buckets = drawn.choice([1, 2, 4, 8, 16, 32] if ranks <= 16 else [1, 2, 4, 8])
    latency_s = drawn.choice([20e-6, 100e-6, 1e-3, 20e-3])
    bytes_per_s = drawn.choice([25e6, 125e6, 1.25e9])
    message_bytes = 2 ** drawn.uniform(20, 27)
    ring_s = 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s
    return Cell(
        ranks=ranks,
        buckets=buckets,
        bucket_elements=int(message_bytes / buckets / ELEMENT_BYTES),
        latency_s=latency_s,
        bytes_per_s=bytes_per_s,
        compute_s=ring_s * 10 ** drawn.uniform(-1, 0.6),
        pattern=drawn.choice([NOBODY, NOBODY, *PATTERNS]),
        delay_s=ring_s * drawn.choice([0.1, 0.3, 1.0, 2.0]),
        jitter=drawn.choice([0.0, 0.01, 0.05, 0.1]),
        seed=seed,
        port_share=min(Link.port_share, _MESSAGE_S / latency_s),
    )
