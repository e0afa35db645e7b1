"""The fixed binary tree over leaves, evaluated as leaves come.

Node (first, height) is the sum of leaves first to first + 2**height - 1, as far as they exist:
the sum of its two halves, the left one first, or its left half alone where there are no more
leaves. Which node a sum belongs to depends on leaf numbers only, so whoever owns which leaves,
the sum of all has the same bits.

Source: Stelz, "Reproducible parallel summation" (2022), eq. 2.1-2.3; BTR22.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Node(NamedTuple, Generic[Value]):
    """The sum of `2**height` consecutive leaves, or of fewer at the end."""

    first: int
    height: int
    value: Value


class LeafTree(Generic[Value]):
    """Sums a consecutive run of leaves up the tree; holds at most 2 log2(run) + 1 values.

    Args:
        add: (left, right) -> their sum; may reuse either.
    """

    def __init__(self, add: Callable[[Value, Value], Value]) -> None:
        self._add = add
        self._nodes: list[Node[Value]] = []  # the run's maximal subtrees, in order of leaves

    @property
    def nodes(self) -> list[Node[Value]]:
        """The maximal complete subtrees of the run so far."""
        return list(self._nodes)

    def append(self, node: Node[Value]) -> None:
        """Add the subtree that follows; two halves become their parent at once."""
        while self._nodes and is_right_half(node) and self._nodes[-1].height == node.height:
            left = self._nodes.pop()
            node = Node(left.first, left.height + 1, self._add(left.value, node.value))
        self._nodes.append(node)

    def total(self) -> Value:
        """The sum of the run, which has to begin at leaf 0 and to have an element."""
        (*lower, last) = self._nodes
        value = last.value
        for node in reversed(lower):
            value = self._add(node.value, value)
        return value


def is_right_half(node: Node[Value]) -> bool:
    """Whether the node is the later half of its parent."""
    return node.first >> node.height & 1 == 1


def run_of(rank: int, ranks: int, leaves: int) -> range:
    """The leaves of a rank: consecutive, and as many for each as can be."""
    return range(rank * leaves // ranks, (rank + 1) * leaves // ranks)


def maximal_subtrees(run: Iterable[int]) -> list[tuple[int, int]]:
    """(first, height) of the subtrees that a consecutive run of leaves adds up to."""
    tree: LeafTree[None] = LeafTree(lambda _left, _right: None)
    for leaf in run:
        tree.append(Node(leaf, 0, None))
    return [(node.first, node.height) for node in tree.nodes]
