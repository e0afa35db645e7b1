"""What each rank was doing, from when to when: computing, waiting for the last rank, communicating.

    rank 0   computation ------|..... waiting .....|== communication ==|
    rank 1   computation --------------------------|== communication ==|
                               arrival of 0        arrival of 1, the last

A rank whose gradients are ready waits until the last rank's are: nobody can have the sum before. (A
good all-reduce uses that time to sum what is there.) The rest of its all-reduce is communication.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Activity = Literal["computation", "waiting", "communication"]


@dataclass(frozen=True)
class Interval:
    """What a rank did from when to when, in seconds of the records' clock."""

    activity: Activity
    start_s: float
    end_s: float


def lane(
    start_s: float, arrival_s: float, finish_s: float, last_arrival_s: float
) -> list[Interval]:
    """Split one rank's iteration into what it did; empty and unknown intervals are left out."""
    # Clamped: a rank may note the end of its all-reduce before the last rank's clock reading.
    waited_s = math.nan if math.isnan(last_arrival_s) else min(last_arrival_s, finish_s)
    intervals = [
        Interval("computation", start_s, arrival_s),
        Interval("waiting", arrival_s, waited_s),
        Interval("communication", waited_s, finish_s),
    ]
    return [i for i in intervals if i.end_s > i.start_s]  # false where either is NaN


def lanes(
    starts_s: Sequence[float], arrivals_s: Sequence[float], finishes_s: Sequence[float]
) -> list[list[Interval]]:
    """Split one iteration of all ranks into what each did, by rank."""
    unknown = any(map(math.isnan, arrivals_s))
    last_arrival_s = math.nan if unknown or not arrivals_s else max(arrivals_s)
    ranks = zip(starts_s, arrivals_s, finishes_s, strict=True)
    return [lane(start, arrival, finish, last_arrival_s) for start, arrival, finish in ranks]
