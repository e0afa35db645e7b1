"""Who is late, by how much, in which iteration: the same on every rank."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

SEED = 1
MOVES_EVERY = 20  # iterations
STALLS = 0.1  # of the iterations

Lateness = Callable[[int, int, random.Random], Sequence[float]]


def _one(late: int) -> Lateness:
    return lambda ranks, _iteration, _draw: [float(r == late % ranks) for r in range(ranks)]


def _moving(ranks: int, iteration: int, _draw: random.Random) -> Sequence[float]:
    late = (1 + 3 * (iteration // MOVES_EVERY)) % ranks
    return [float(r == late) for r in range(ranks)]


def _random(ranks: int, _iteration: int, draw: random.Random) -> Sequence[float]:
    late = draw.randrange(ranks)
    return [float(r == late) for r in range(ranks)]


def _stall(ranks: int, iteration: int, draw: random.Random) -> Sequence[float]:
    stalls = draw.random() < STALLS
    return _random(ranks, iteration, draw) if stalls else [0.0] * ranks


def _two(ranks: int, _iteration: int, _draw: random.Random) -> Sequence[float]:
    return [1.0 if r == 1 % ranks else 0.5 if r == 2 else 0.0 for r in range(ranks)]


# Shares of the delay, per rank.
PATTERNS: dict[str, Lateness] = {
    "fixed": _one(1),
    "leader": _one(0),
    "last": _one(-1),
    "two": _two,
    "three": lambda ranks, _iteration, _draw: [float(r >= ranks - 3) for r in range(ranks)],
    "half": lambda ranks, _iteration, _draw: [float(r < ranks // 2) for r in range(ranks)],
    "linear": lambda ranks, _iteration, _draw: [r / max(ranks - 1, 1) for r in range(ranks)],
    "moving": _moving,
    "random": _random,
    "uniform": lambda ranks, _iteration, draw: [draw.random() for _ in range(ranks)],
    "stall": _stall,
}


def factors(jitter: float, ranks: int, draw: random.Random) -> list[float]:
    """(ranks,) of what each computes: normal, jitter is their standard deviation."""
    return [max(1 + jitter * draw.gauss(0, 1), 0.2) for _ in range(ranks)]


def lateness(pattern: str, iteration: int, ranks: int) -> list[float]:
    """(ranks,) shares of the delay, 0 to 1."""
    drawn = random.Random(SEED * 1_000_003 + iteration)
    return list(PATTERNS[pattern](ranks, iteration, drawn))
