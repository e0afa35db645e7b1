"""The tree of BTR22 on any values, level by level: neighbours are added, a last odd one goes up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def tree(leaves: Sequence[T], add: Callable[[T, T], T]) -> T:
    """The sum of `leaves` in the order of BTR22's eq. 2.1-2.3, the lower index on the left."""
    level = list(leaves)
    while len(level) > 1:
        pairs = [add(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) // 2 * 2 :]
    return level[0]
