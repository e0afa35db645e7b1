"""Decision trees as C4.5 grows and prunes them.

A test `attribute <= threshold` parts the cases; of the tests that gain at least as much as the mean
one, the one with the greatest gain ratio is taken. Both sides have to have `weight` cases. Then
what is not worth its size is cut off again, from the bottom: a part becomes a leaf where the leaf's
pessimistic errors, the upper limit of a binomial's confidence interval, are no more.

Source: Quinlan, C4.5: Programs for Machine Learning (1993), as TUNE07, section 5.4, applies it:
gain ratio by equations 5.13-5.17.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from patallreduce.decisions.decision_tree import (
    Branch,
    Case,
    DecisionTree,
    Leaf,
    cases_of,
    leaves_of,
    sides_of,
    thresholds,
)
from patallreduce.decisions.functions import DecisionMap
from patallreduce.statistics import scipy_stats


def c45(
    of: DecisionMap,
    *,
    weight: int = 2,
    confidence: float | None = 0.25,
    attributes: Sequence[str] = ("ranks", "bytes"),
) -> DecisionTree:
    """Learn a tree, and prune it.

    Args:
        of: The cases; the fastest method is the class.
        weight: Cases that both sides of a test have to have, C4.5's -m, >= 1.
        confidence: C4.5's -c as a part of 1, above 0 and below 1: less prunes more. None: prune
            nothing.
        attributes: Of `ATTRIBUTES`.

    Raises:
        ValueError: No cases, or an argument out of range.
    """
    if weight < 1 or not (confidence is None or 0 < confidence < 1):
        raise ValueError(
            f"c45: expected weight >= 1 and confidence above 0 and below 1, got {weight} and "
            f"{confidence}"
        )
    cases = cases_of(of, attributes)
    return DecisionTree(_grown(cases, attributes, weight, confidence))


def information(counts: Sequence[int]) -> float:
    """Bits that tell the class of a case, of so many of each class (equation 5.13)."""
    total = sum(counts)
    return -sum(n / total * math.log2(n / total) for n in counts if n)


def _classes(cases: Sequence[Case]) -> list[int]:
    return list(Counter(case.method for case in cases).values())


class _Split(NamedTuple):
    ratio: float
    gain: float
    place: int
    threshold: int


def _grown(
    cases: list[Case], attributes: Sequence[str], weight: int, confidence: float | None
) -> Leaf | Branch:
    counts = Counter(case.method for case in cases)
    most = max(counts.values())
    method = min(method for method, count in counts.items() if count == most)
    leaf = Leaf(method, len(cases), len(cases) - most)
    splits = [
        split
        for place in range(len(attributes))
        for threshold in thresholds(cases, place)
        if (split := _split(cases, place, threshold, weight)) is not None
    ]
    if len(counts) == 1 or not splits:
        return leaf
    mean = sum(split.gain for split in splits) / len(splits)
    best = max(split for split in splits if split.gain >= mean - 1e-12)
    below, above = sides_of(cases, best.place, best.threshold)
    test = Branch(
        attributes[best.place],
        best.threshold,
        _grown(below, attributes, weight, confidence),
        _grown(above, attributes, weight, confidence),
    )
    if confidence is not None and _expected(leaf, confidence) <= _expected(test, confidence):
        return leaf
    return test


def _split(cases: list[Case], place: int, threshold: int, weight: int) -> _Split | None:
    sides = sides_of(cases, place, threshold)
    sizes = [len(side) for side in sides]
    if min(sizes) < weight:
        return None
    after = sum(len(side) / len(cases) * information(_classes(side)) for side in sides)
    gain = information(_classes(cases)) - after
    if gain <= 1e-12:
        return None
    return _Split(gain / information(sizes), gain, place, threshold)


def upper_limit(errors: int, cases: int, confidence: float) -> float:
    """U_CF(E, N): the error rate with which no more than E of N are wrong with probability CF."""
    beta = scipy_stats().beta
    return 1.0 if errors >= cases else float(beta.ppf(1 - confidence, errors + 1, cases - errors))


def _expected(node: Leaf | Branch, confidence: float) -> float:
    """Errors on cases that nobody has seen."""
    return sum(
        leaf.cases * upper_limit(leaf.errors, leaf.cases, confidence) for leaf in leaves_of(node)
    )
