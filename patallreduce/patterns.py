"""Patterns of arrivals: by how many seconds each rank is late.

Those of CLV16's benchmark: one late, alternating, uniform, normal, gamma, Bernoulli, and a file of
patterns seen elsewhere. Pure functions: the same arguments give the same arrivals on every rank and
every machine, so that nobody has to send them round. What is drawn depends on `seed` alone; draws
with different seeds (1, 2, ... or texts) are independent of each other.

All give (P,) seconds >= 0 in rank order, for `pat.schedule`, `pat.simulate` and `all_reduce`, and
raise ValueError for fewer than 1 rank or a parameter out of range.

Source: Marendic, Lemeire, Vucinic, Schelkens, "A novel MPI reduction algorithm resilient to
imbalances in process arrival times", J. Supercomput. 72 (2016), section 6. It names the patterns
and leaves their parameters open; those of PAP18 are one_late(P, d, rank=1) and uniform(P, d).
"""

from __future__ import annotations

import operator
import random
from math import isfinite
from pathlib import Path

from patallreduce.arguments import refused
from patallreduce.text.files import read_text

Seed = int | str


def balanced(ranks: int) -> list[float]:
    """All ranks arrive at 0."""
    return [0.0] * _checked(ranks)


def one_late(ranks: int, delay_s: float, rank: int | None = None) -> list[float]:
    """One rank is late by `delay_s`, all others by nothing.

    Args:
        ranks: P >= 1.
        delay_s: Seconds >= 0.
        rank: The late one, 0 to P - 1. Default: the last, which is late in CLV16's experiments.
    """
    ranks = _checked(ranks, delay_s=delay_s)
    late = ranks - 1 if rank is None else operator.index(rank)
    if not 0 <= late < ranks:
        raise ValueError(f"rank: expected 0 to {ranks - 1}, got {late}")
    return [delay_s if other == late else 0.0 for other in range(ranks)]


def alternating(ranks: int, even_s: float, odd_s: float = 0.0) -> list[float]:
    """Ranks 0, 2, 4, ... are late by `even_s` >= 0 seconds, ranks 1, 3, ... by `odd_s` >= 0."""
    return [odd_s if r % 2 else even_s for r in range(_checked(ranks, even_s=even_s, odd_s=odd_s))]


def uniform(ranks: int, delay_s: float, *, seed: Seed = 0) -> list[float]:
    """Every rank is late by between 0 and `delay_s` seconds, all alike likely."""
    _checked(ranks, delay_s=delay_s)
    drawn = _generator("uniform", seed)
    return [delay_s * drawn.random() for _ in range(ranks)]


def normal(ranks: int, deviation_s: float, *, seed: Seed = 0) -> list[float]:
    """Arrivals are normally distributed with a standard deviation of `deviation_s` >= 0 seconds.

    Counted from the first rank's arrival, which is 0: the mean of them all changes nothing.
    """
    _checked(ranks, deviation_s=deviation_s)
    drawn = _generator("normal", seed)
    around_0_s = [deviation_s * drawn.gauss(0.0, 1.0) for _ in range(ranks)]
    first_s = min(around_0_s)
    return [arrival_s - first_s for arrival_s in around_0_s]


def gamma(ranks: int, mean_s: float, shape: float = 2.0, *, seed: Seed = 0) -> list[float]:
    """Every rank is late by a gamma distributed time: few ranks much later than most.

    Args:
        ranks: P >= 1.
        mean_s: Mean of the distribution in seconds, >= 0.
        shape: k > 0; the scale is mean_s / k. 1 is the exponential distribution; the smaller, the
            heavier the tail: the standard deviation is mean_s / sqrt(k).
        seed: What the draw depends on.
    """
    _checked(ranks, mean_s=mean_s)
    if not (shape > 0 and isfinite(shape)):
        raise ValueError(f"shape: expected a number > 0, got {shape}")
    drawn = _generator("gamma", seed)
    return [mean_s * drawn.gammavariate(shape, 1.0 / shape) for _ in range(ranks)]


def bernoulli(
    ranks: int, delay_s: float, probability: float = 0.1, *, seed: Seed = 0
) -> list[float]:
    """Every rank is late by `delay_s` >= 0 seconds with `probability`, 0 to 1, else by nothing."""
    _checked(ranks, delay_s=delay_s)
    if not 0 <= probability <= 1:
        raise ValueError(f"probability: expected 0 to 1, got {probability}")
    drawn = _generator("bernoulli", seed)
    return [delay_s if drawn.random() < probability else 0.0 for _ in range(ranks)]


def read_trace(path: str | Path, ranks: int | None = None) -> list[list[float]]:
    """Read patterns from a file: N lines of P values, in seconds >= 0, in rank order.

    Values are parted by spaces, tabs or commas; empty lines and lines from "#" on are left out.

    Args:
        path: A text file in UTF-8.
        ranks: P. Default: as many as the first line has.

    Returns:
        (N, P) arrivals, N >= 1.

    Raises:
        OSError: The file cannot be read.
        ValueError: A value is no time, a line has another number of values, or there is none; the
            message names file, line and column (the number of the value in its line), from 1.
    """
    patterns: list[list[float]] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        where = f"{path}, line {number}"
        arrivals_s = [_seconds(word, f"{where}, column {c}") for c, word in enumerate(words, 1)]
        expected = ranks if ranks is not None else len(patterns[0]) if patterns else len(words)
        if len(words) != expected:
            raise ValueError(f"{where}: expected {expected} values, one per rank, got {len(words)}")
        patterns.append(arrivals_s)
    if not patterns:
        raise ValueError(f"{path}: expected a line of arrivals in seconds, got none")
    return patterns


def _seconds(word: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(refused(where, "seconds >= 0", word))
    return value


def _generator(pattern: str, seed: Seed) -> random.Random:
    # Of a text Random takes the SHA-512: nearby seeds are no nearer to each other than others.
    return random.Random(f"{pattern} {seed}")


def _checked(ranks: int, **times_s: float) -> int:
    ranks = operator.index(ranks)
    if ranks < 1:
        raise ValueError(f"ranks: expected a number >= 1, got {ranks}")
    for name, value in times_s.items():
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name}: expected seconds >= 0, got {value}")
    return ranks
