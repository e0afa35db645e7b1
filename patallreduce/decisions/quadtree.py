"""A decision map as a quadtree: a picture of methods, cut into quarters until each is plain.

The map is brought to 2^k x 2^k points by repeating some of its rows and columns. A quarter whose
points all have one method is a leaf; so is one at the greatest depth, or one where a large enough
share has one method: it has the method that most of its points have. Of several that as many have,
it is that of the upper right corner, or else the first by name.

    8 ranks   R R | S S        depth 0: R   depth 1: R | S   depth 2, exact: R | S
    4         R R | S S                              --+--                   --+---
              ----+----                              R | R                     | RS
    3         R R | R S                                                      R | RR
    2         R R | R R
              bytes ->

Source: TUNE07, section 5.3 (exact, maximum-depth and accuracy-threshold limited quadtrees).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patallreduce.decisions.decision_tree import Branch, DecisionTree, Leaf
from patallreduce.decisions.functions import DecisionMap, fastest
from patallreduce.decisions.times import Method


@dataclass(frozen=True)
class Quadtree:
    """Which method for how many ranks and bytes.

    Args:
        ranks: Of the rows, ascending, as the map had them: (2^k,) with repetitions.
        sizes: Of the columns, likewise.
        root: A method, or four quarters: few ranks and bytes, few ranks and many bytes, many ranks
            and few bytes, many of both.
    """

    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    root: object

    def __call__(self, ranks: int, message_bytes: int) -> Method:
        """Decide; what lies between two points is as the one before, beyond them as the last."""
        row = max(bisect_right(self.ranks, ranks) - 1, 0)
        column = max(bisect_right(self.sizes, message_bytes) - 1, 0)
        node, half = self.root, len(self.ranks) // 2
        while isinstance(node, list):
            node = node[2 * (row >= half) + (column >= half)]
            row, column, half = row % half, column % half, half // 2
        assert isinstance(node, Method)
        return node

    def depths(self) -> list[int]:
        """Of its leaves."""
        return [depth for depth, _ in _leaves(self.root)]

    def methods(self) -> list[Method]:
        """Of its leaves."""
        return [method for _, method in _leaves(self.root)]

    def __str__(self) -> str:
        """Its tests."""
        return str(DecisionTree(self.tests()))

    def tests(self) -> Leaf | Branch:
        """As a decision tree: of ranks, then of bytes, at each of its nodes."""
        return self._tests(self.root, slice(0, len(self.ranks)), slice(0, len(self.sizes)))

    def _tests(self, node: object, rows: slice, columns: slice) -> Leaf | Branch:
        if isinstance(node, Method):
            return Leaf(node)
        assert isinstance(node, list)
        row, column = ((part.start + part.stop) // 2 for part in (rows, columns))
        sides = [
            _test(
                "bytes",
                self.sizes[column],
                self._tests(node[number], part, slice(columns.start, column)),
                self._tests(node[number + 1], part, slice(column, columns.stop)),
            )
            for number, part in ((0, slice(rows.start, row)), (2, slice(row, rows.stop)))
        ]
        return _test("ranks", self.ranks[row], *sides)


def quadtree(of: DecisionMap, *, most_depth: int | None = None, accuracy: float = 1.0) -> Quadtree:
    """Encode a map.

    Args:
        of: Every number of ranks with every size.
        most_depth: Of a leaf, >= 0; None: as deep as need be.
        accuracy: The share of a quarter's points, above 0 and up to 1, that makes it a leaf.

    Raises:
        ValueError: A point is missing, or an argument is out of range.
    """
    if not of or not 0 < accuracy <= 1 or (most_depth is not None and most_depth < 0):
        raise ValueError(
            f"quadtree: expected points, a depth >= 0 and an accuracy above 0 and up to 1, got "
            f"{len(of)} points, {most_depth} and {accuracy}"
        )
    rows, columns = (sorted({point[axis] for point in of}) for axis in (0, 1))
    side = 1 << max(len(rows) - 1, len(columns) - 1).bit_length()
    ranks, sizes = _repeated(rows, side), _repeated(columns, side)
    if missing := {(p, m) for p in rows for m in columns} - set(of):
        p, m = min(missing)
        raise ValueError(
            f"quadtree: expected every size with every number of ranks, got none of {m} bytes on "
            f"{p} ranks"
        )
    methods = [[fastest(of[p, m]) for m in sizes] for p in ranks]
    depth = side.bit_length() - 1 if most_depth is None else most_depth
    return Quadtree(tuple(ranks), tuple(sizes), _encode(methods, depth, accuracy))


def _test(
    attribute: str, first_above: int, below: Leaf | Branch, above: Leaf | Branch
) -> Leaf | Branch:
    """Both sides alike need no test."""
    same = isinstance(below, Leaf) and isinstance(above, Leaf) and below.method == above.method
    return above if same else Branch(attribute, first_above - 1, below, above)


def _repeated(values: Sequence[int], count: int) -> list[int]:
    return [values[place * len(values) // count] for place in range(count)]


def _encode(methods: list[list[Method]], depth: int, accuracy: float) -> object:
    counts = Counter(method for row in methods for method in row)
    most = max(counts.values())
    if most >= accuracy * sum(counts.values()) or depth == 0:
        tied = sorted(method for method, count in counts.items() if count == most)
        corner = methods[-1][-1]
        return corner if corner in tied else tied[0]
    half = len(methods) // 2
    return [
        _encode([row[columns] for row in methods[rows]], depth - 1, accuracy)
        for rows in (slice(half), slice(half, None))
        for columns in (slice(half), slice(half, None))
    ]


def _leaves(node: object, depth: int = 0) -> Iterator[tuple[int, Method]]:
    if isinstance(node, list):
        for quarter in node:
            yield from _leaves(quarter, depth + 1)
    else:
        assert isinstance(node, Method)
        yield depth, node
