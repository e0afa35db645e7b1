"""A decision function as source: nested `if`s in Python or C++, as TUNE07 prints them.

Both define `decide(ranks, bytes)`: the number of a method, which the list of names above it tells.

Source: TUNE07, sections 5.3.3 (of a quadtree) and 5.4.3 (of a decision tree).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from patallreduce.decisions.decision_tree import Branch, DecisionTree, Leaf
from patallreduce.decisions.quadtree import Quadtree
from patallreduce.decisions.times import Method

_CPP_OF = {
    "ranks": "ranks",
    "bytes": "bytes",
    "total_bytes": "ranks * bytes",
    "odd_ranks": "ranks % 2",
    "not_power_of_two": "((ranks & (ranks - 1)) != 0)",
}
_PYTHON_OF = {**_CPP_OF, "not_power_of_two": "int(ranks & (ranks - 1) != 0)"}


def methods_of(function: DecisionTree | Quadtree) -> list[Method]:
    """By number, as the code has them."""
    if isinstance(function, DecisionTree):
        return sorted({leaf.method for leaf in function.leaves()})
    return sorted(set(function.methods()))


def python(function: DecisionTree | Quadtree) -> str:
    """Source of a module."""
    methods = methods_of(function)
    names = "".join(f'    "{method}",\n' for method in methods)
    lines = _statements(function, methods, _PYTHON_OF, _python_if, "    ")
    return f"METHODS = [\n{names}]\n\n\ndef decide(ranks, bytes):\n" + "\n".join(lines) + "\n"


def cpp(function: DecisionTree | Quadtree) -> str:
    """Source of a header."""
    methods = methods_of(function)
    names = "".join(f'    "{method}",\n' for method in methods)
    lines = _statements(function, methods, _CPP_OF, _cpp_if, "  ")
    return (
        "#pragma once\n\n#include <cstdint>\n\n"
        f"inline constexpr const char* methods[] = {{\n{names}}};\n\n"
        "inline int decide(std::int64_t ranks, std::int64_t bytes) {\n" + "\n".join(lines) + "\n}\n"
    )


_If = Callable[[str, list[str], list[str], str], Iterator[str]]


def _python_if(test: str, then: list[str], other: list[str], indent: str) -> Iterator[str]:
    yield f"{indent}if {test}:"
    yield from then
    yield f"{indent}else:"
    yield from other


def _cpp_if(test: str, then: list[str], other: list[str], indent: str) -> Iterator[str]:
    yield f"{indent}if ({test}) {{"
    yield from then
    yield f"{indent}}} else {{"
    yield from other
    yield f"{indent}}}"


def _statements(
    function: DecisionTree | Quadtree,
    methods: list[Method],
    attributes: dict[str, str],
    branch: _If,
    indent: str,
) -> list[str]:
    end = ";" if branch is _cpp_if else ""
    step = indent
    root = function.root if isinstance(function, DecisionTree) else function.tests()

    def write(node: Leaf | Branch, indent: str) -> list[str]:
        if isinstance(node, Leaf):
            return [f"{indent}return {methods.index(node.method)}{end}"]
        test = f"{attributes[node.attribute]} <= {node.threshold}"
        below, above = (write(side, indent + step) for side in (node.below, node.above))
        return list(branch(test, below, above, indent))

    return write(root, indent)
