"""Decision trees over ranks and bytes, and the cases that they are made from.

How they are grown: tree_by_gain.py, as C4.5 does it, and tree_by_penalty.py.

Source: TUNE07, section 5.4; composite attributes by section 6.3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from patallreduce.decisions.functions import DecisionMap, fastest
from patallreduce.decisions.times import Method

ATTRIBUTES: dict[str, Callable[[int, int], int]] = {
    "ranks": lambda ranks, message_bytes: ranks,
    "bytes": lambda ranks, message_bytes: message_bytes,
    "total_bytes": lambda ranks, message_bytes: ranks * message_bytes,
    "odd_ranks": lambda ranks, message_bytes: ranks % 2,
    "not_power_of_two": lambda ranks, message_bytes: int(ranks & (ranks - 1) != 0),
}


class Case(NamedTuple):
    """A point, and what is fastest there."""

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
        return list(leaves_of(self.root))

    def __str__(self) -> str:
        """As C4.5 prints one: (cases/errors) behind each method."""
        return "\n".join(_lines(self.root, ""))


def cases_of(of: DecisionMap, attributes: Sequence[str]) -> list[Case]:
    """The points of a map as cases, in order.

    Raises:
        ValueError: There are none, or an attribute is not one of `ATTRIBUTES`.
    """
    if unknown := set(attributes) - set(ATTRIBUTES):
        raise ValueError(f"attributes: expected some of {', '.join(ATTRIBUTES)}, got {unknown}")
    if not of:
        raise ValueError("expected the points of a decision map, got none")
    return [
        Case(tuple(ATTRIBUTES[name](*point) for name in attributes), times_s, fastest(times_s))
        for point, times_s in sorted(of.items())
    ]


def thresholds(cases: Sequence[Case], place: int) -> list[int]:
    """Of the tests that part them, each the largest value that is below it."""
    return sorted({case.values[place] for case in cases})[:-1]


def sides_of(cases: Sequence[Case], place: int, threshold: int) -> tuple[list[Case], list[Case]]:
    """The cases below that threshold or at it, and those above it."""
    return (
        [case for case in cases if case.values[place] <= threshold],
        [case for case in cases if case.values[place] > threshold],
    )


def leaves_of(node: Leaf | Branch) -> Iterator[Leaf]:
    """All of them, the smaller values first."""
    if isinstance(node, Leaf):
        yield node
    else:
        yield from leaves_of(node.below)
        yield from leaves_of(node.above)


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
