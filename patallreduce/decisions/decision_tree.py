"""Decision trees over ranks and bytes, and what follows from these: C4.5's way, or by penalty.

C4.5: a test `attribute <= threshold` parts the cases; of the tests that gain at least as much as
the mean one, the one with the greatest gain ratio is taken. Both sides have to have `weight` cases.
Then what is not worth its size is cut off again, from the bottom: a part becomes a leaf where the
leaf's pessimistic errors, the upper limit of a binomial's confidence interval, are no more.

By penalty: the test after which one method on either side costs the least time, over what is
fastest at each point; where none saves anything, the one that does with another after it. A side
is parted further while that saves something. So what a wrong choice costs counts, not how many
there are.

Source: Quinlan, C4.5: Programs for Machine Learning (1993), as TUNE07, section 5.4, applies it:
gain ratio by equations 5.13-5.17; composite attributes by section 6.3.4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from patallreduce.decisions.functions import DecisionMap, fastest
from patallreduce.decisions.times import Method
from patallreduce.statistics import scipy_stats

ATTRIBUTES: dict[str, Callable[[int, int], int]] = {
    "ranks": lambda ranks, message_bytes: ranks,
    "bytes": lambda ranks, message_bytes: message_bytes,
    "total_bytes": lambda ranks, message_bytes: ranks * message_bytes,
    "odd_ranks": lambda ranks, message_bytes: ranks % 2,
    "not_power_of_two": lambda ranks, message_bytes: int(ranks & (ranks - 1) != 0),
}


class _Case(NamedTuple):
    values: tuple[int, ...]  # by attribute
    times_s: Mapping[Method, float]
    method: Method  # the fastest


@dataclass(frozen=True)
class Leaf:
    """What is decided.

    Args:
        method: This.
        cases: Of those that it was made from; 0: it was made from none.
        errors: Of them, for which another is fastest.
    """

    method: Method
    cases: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Branch:
    """attribute <= threshold: `below`, otherwise `above`."""

    attribute: str
    threshold: int
    below: Leaf | Branch
    above: Leaf | Branch


@dataclass(frozen=True)
class DecisionTree:
    """Which method for how many ranks and bytes."""

    root: Leaf | Branch

    def __call__(self, ranks: int, message_bytes: int) -> Method:
        """Decide."""
        node = self.root
        while isinstance(node, Branch):
            value = ATTRIBUTES[node.attribute](ranks, message_bytes)
            node = node.below if value <= node.threshold else node.above
        return node.method

    def leaves(self) -> list[Leaf]:
        """All of them, the smaller values first."""
        return list(_leaves(self.root))

    def __str__(self) -> str:
        """As C4.5 prints one: (cases/errors) behind each method."""
        return "\n".join(_lines(self.root, ""))


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
    cases = _cases(of, attributes)
    return DecisionTree(_grown(cases, attributes, weight, confidence))


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
    cases = _cases(of, attributes)
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

    def __init__(self, cases: list[_Case], attributes: Sequence[str]) -> None:
        self._cases = cases
        self._sides: tuple[_Part, _Part] | None = None
        self._method, _ = _cheapest(cases)
        self._test = _best_test(cases, len(attributes))
        self.saved = self._test.saved

    def split(self, attributes: Sequence[str]) -> tuple[_Part, _Part]:
        """Part it by that test."""
        below, above = _sides(self._cases, self._test.place, self._test.threshold)
        self._sides = (_Part(below, attributes), _Part(above, attributes))
        return self._sides

    def node(self, attributes: Sequence[str]) -> Leaf | Branch:
        """Itself, as a tree's."""
        if self._sides is None:
            errors = sum(case.method != self._method for case in self._cases)
            return Leaf(self._method, len(self._cases), errors)
        below, above = (side.node(attributes) for side in self._sides)
        return Branch(attributes[self._test.place], self._test.threshold, below, above)


def _best_test(cases: list[_Case], attributes: int, *, ahead: bool = True) -> _Test:
    """The one that saves most; if none saves anything, with the best one after it, half of that."""
    cost = _cheapest(cases)[1]
    tests = [
        (place, threshold, _sides(cases, place, threshold))
        for place in range(attributes)
        for threshold in _thresholds(cases, place)
    ]
    saved = [cost - sum(_cheapest(side)[1] for side in sides) for _, _, sides in tests]
    if ahead and max(saved, default=0) <= _NOTHING:
        for number, (_, _, sides) in enumerate(tests):
            after = max(_best_test(side, attributes, ahead=False).saved for side in sides)
            saved[number] = (saved[number] + after) / 2
    found = [_Test(s, place, at) for s, (place, at, _) in zip(saved, tests, strict=True)]
    return max(found, key=lambda test: test.saved, default=_Test(0))


_NOTHING = 1e-9  # of a fastest time: less is an error of rounding


def _cheapest(cases: Sequence[_Case]) -> tuple[Method, float]:
    """The method with the least sum of penalties, and that sum; what was not measured costs 1."""
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


_UNKNOWN = 10.0


def _cases(of: DecisionMap, attributes: Sequence[str]) -> list[_Case]:
    if unknown := set(attributes) - set(ATTRIBUTES):
        raise ValueError(f"attributes: expected some of {', '.join(ATTRIBUTES)}, got {unknown}")
    if not of:
        raise ValueError("expected the points of a decision map, got none")
    return [
        _Case(tuple(ATTRIBUTES[name](*point) for name in attributes), times_s, fastest(times_s))
        for point, times_s in sorted(of.items())
    ]


def _thresholds(cases: Sequence[_Case], place: int) -> list[int]:
    """Of the tests that part them, each the largest value that is below it."""
    return sorted({case.values[place] for case in cases})[:-1]


def _sides(cases: Sequence[_Case], place: int, threshold: int) -> tuple[list[_Case], list[_Case]]:
    return (
        [case for case in cases if case.values[place] <= threshold],
        [case for case in cases if case.values[place] > threshold],
    )


def information(counts: Sequence[int]) -> float:
    """Bits that tell the class of a case, of so many of each class (equation 5.13)."""
    total = sum(counts)
    return -sum(n / total * math.log2(n / total) for n in counts if n)


def _classes(cases: Sequence[_Case]) -> list[int]:
    return list(Counter(case.method for case in cases).values())


class _Split(NamedTuple):
    ratio: float
    gain: float
    place: int
    threshold: int


def _grown(
    cases: list[_Case], attributes: Sequence[str], weight: int, confidence: float | None
) -> Leaf | Branch:
    counts = Counter(case.method for case in cases)
    most = max(counts.values())
    method = min(method for method, count in counts.items() if count == most)
    leaf = Leaf(method, len(cases), len(cases) - most)
    splits = [
        split
        for place in range(len(attributes))
        for threshold in _thresholds(cases, place)
        if (split := _split(cases, place, threshold, weight)) is not None
    ]
    if len(counts) == 1 or not splits:
        return leaf
    mean = sum(split.gain for split in splits) / len(splits)
    best = max(split for split in splits if split.gain >= mean - 1e-12)
    below, above = _sides(cases, best.place, best.threshold)
    test = Branch(
        attributes[best.place],
        best.threshold,
        _grown(below, attributes, weight, confidence),
        _grown(above, attributes, weight, confidence),
    )
    if confidence is not None and _expected(leaf, confidence) <= _expected(test, confidence):
        return leaf
    return test


def _split(cases: list[_Case], place: int, threshold: int, weight: int) -> _Split | None:
    sides = _sides(cases, place, threshold)
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
        leaf.cases * upper_limit(leaf.errors, leaf.cases, confidence) for leaf in _leaves(node)
    )


def _leaves(node: Leaf | Branch) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    else:
        yield from _leaves(node.below)
        yield from _leaves(node.above)


def _lines(node: Leaf | Branch, indent: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        cases = f" ({node.cases}/{node.errors})" if node.cases else ""
        yield f"{indent}{node.method}{cases}"
        return
    for sign, side in (("<=", node.below), (">", node.above)):
        test = f"{indent}{node.attribute} {sign} {node.threshold}:"
        if isinstance(side, Leaf):
            yield f"{test} {next(_lines(side, ''))}"
        else:
            yield test
            yield from _lines(side, indent + "    ")
