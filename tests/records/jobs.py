"""Jobs made up: what each rank does in each phase of each iteration, with noise as machines have.

Noise: every phase is a few percent longer or shorter, and now and then a stall comes on top whose
length has no variance (Pareto, exponent 1.5).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

from patallreduce.records.iterations import FORWARD, BucketRecord, EdgeRecord, Iteration

PHASES_S = {
    "schedule": 0.0,
    "input": 0.005,
    "forward": 0.015,
    "first quarter": 0.0075,
    "second quarter": 0.0075,
    "third quarter": 0.0075,
    "last quarter": 0.0075,
}
ITERATION_S = sum(PHASES_S.values())
QUARTERS = [FORWARD + quarter / 4 * (1 - FORWARD) for quarter in range(4)]
ALL_REDUCE_S = 0.003


def iterations(
    ranks: int,
    *,
    late_rank: int = 0,
    longer_s: Mapping[str, float] | None = None,
    since: int = 0,
    seed: int = 0,
    noise: float = 0.03,
    stalls: float = 0.02,
) -> Iterator[Iteration]:
    """Make up iterations without end.

    Args:
        ranks: P.
        late_rank: Takes longer,
        longer_s: in these phases by so much,
        since: from this iteration on.
        seed: Of the noise.
        noise: Standard deviation of a phase's length, as a part of it.
        stalls: Share of the phases that have one.
    """
    draw = random.Random(seed)
    result_s = [0.0] * ranks
    for number in itertools.count():
        marks: dict[str, list[float]] = {phase: [] for phase in PHASES_S}
        for rank in range(ranks):
            at_s = result_s[rank]
            for phase, usual_s in PHASES_S.items():
                at_s += usual_s * draw.lognormvariate(0, noise)
                if usual_s and draw.random() < stalls:
                    at_s += 1e-3 * draw.paretovariate(1.5)
                if rank == late_rank and number >= since and phase != "schedule":
                    at_s += (longer_s or {}).get(phase, 0.0)
                marks[phase].append(at_s)
        arrival_s = tuple(marks["last quarter"])
        result_s = [max(arrival_s) + ALL_REDUCE_S] * ranks
        if number + 1 >= since:
            result_s[late_rank] += (longer_s or {}).get("schedule", 0.0)
        finish_s = tuple(result_s)
        unknown = (float("nan"),) * ranks
        passed = [marks[phase] for phase in list(PHASES_S)[2:-1]]
        yield Iteration(
            model=1,
            iteration=number,
            start_s=tuple(marks["input"]),
            decided_s=arrival_s[0],
            edges=ranks,
            finish_s=finish_s,
            buckets=(BucketRecord(0, 9, "ring", 4, unknown, arrival_s, finish_s, False),),
            progress=tuple(
                EdgeRecord(fraction, tuple(at_s))
                for fraction, at_s in zip(QUARTERS, passed, strict=True)
            ),
        )
