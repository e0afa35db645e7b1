"""Decision trees whose choices cost little time: what a wrong one costs counts, not how many.

The test is taken after which one method on either side costs the least time, over what is fastest
at each point; where none saves anything, the one that does with another after it. A side is parted
further while that saves something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from patallreduce.decisions.decision_tree import (
    Branch,
    Case,
    DecisionTree,
    Leaf,
    cases_of,
    sides_of,
    thresholds,
)
from patallreduce.decisions.functions import DecisionMap
from patallreduce.decisions.times import Method


def by_penalty(
    of: DecisionMap,
    *,
    most_leaves: int = 1 << 16,
    least_saved: float = 0.001,
    attributes: Sequence[str] = ("ranks", "bytes"),
) -> DecisionTree:
    """Grow the tree whose choices cost least, test by test, the most saving one first.

    Args:
        of: Every point with the times of all methods that may be chosen there.
        most_leaves: No more than so many, >= 1.
        least_saved: What a test has to save, of the mean penalty over all points.
        attributes: Of `ATTRIBUTES`.

    Raises:
        ValueError: No cases, or most_leaves < 1.
    """
    if most_leaves < 1:
        raise ValueError(f"by_penalty: expected most_leaves >= 1, got {most_leaves}")
    cases = cases_of(of, attributes)
    parts = [_Part(cases, attributes)]
    root = parts[0]
    for _ in range(most_leaves - 1):
        part = max(parts, key=lambda part: part.saved)
        if part.saved <= least_saved * len(cases):
            break
        parts.remove(part)
        parts += part.split(attributes)
    return DecisionTree(root.node(attributes))


class _Test(NamedTuple):
    saved: float
    place: int = 0
    threshold: int = 0


class _Part:
    """Cases that have one method so far, and the test that would save most."""

    def __init__(self, cases: list[Case], attributes: Sequence[str]) -> None:
        self._cases = cases
        self._sides: tuple[_Part, _Part] | None = None
        self._method, _ = _cheapest(cases)
        self._test = _best_test(cases, len(attributes))
        self.saved = self._test.saved

    def split(self, attributes: Sequence[str]) -> tuple[_Part, _Part]:
        """Part it by that test."""
        below, above = sides_of(self._cases, self._test.place, self._test.threshold)
        self._sides = (_Part(below, attributes), _Part(above, attributes))
        return self._sides

    def node(self, attributes: Sequence[str]) -> Leaf | Branch:
        """Itself, as a tree's."""
        if self._sides is None:
            errors = sum(case.method != self._method for case in self._cases)
            return Leaf(self._method, len(self._cases), errors)
        below, above = (side.node(attributes) for side in self._sides)
        return Branch(attributes[self._test.place], self._test.threshold, below, above)


def _best_test(cases: list[Case], attributes: int, *, ahead: bool = True) -> _Test:
    """The one that saves most; if none saves anything, with the best one after it, half of that."""
    cost = _cheapest(cases)[1]
    tests = [
        (place, threshold, sides_of(cases, place, threshold))
        for place in range(attributes)
        for threshold in thresholds(cases, place)
    ]
    saved = [cost - sum(_cheapest(side)[1] for side in sides) for _, _, sides in tests]
    if ahead and max(saved, default=0) <= _NOTHING:
        for number, (_, _, sides) in enumerate(tests):
            after = max(_best_test(side, attributes, ahead=False).saved for side in sides)
            saved[number] = (saved[number] + after) / 2
    found = [_Test(s, place, at) for s, (place, at, _) in zip(saved, tests, strict=True)]
    return max(found, key=lambda test: test.saved, default=_Test(0))


_NOTHING = 1e-9  # of a fastest time: less is an error of rounding
_UNKNOWN = 10.0  # penalty of what was not measured, and the most of what was


def _cheapest(cases: Sequence[Case]) -> tuple[Method, float]:
    """The method with the least sum of penalties, and that sum."""
    methods = sorted({method for case in cases for method in case.times_s})

    def cost(method: Method) -> float:
        return sum(
            min(case.times_s[method] / case.times_s[case.method] - 1, _UNKNOWN)
            if method in case.times_s
            else _UNKNOWN
            for case in cases
        )

    best = min(methods, key=cost)
    return best, cost(best)
