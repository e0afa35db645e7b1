"""`python -m patallreduce decide`: of what `tune` measured, a tree of tests, and code of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from patallreduce.commands import Commands
from patallreduce.decisions import code
from patallreduce.decisions.decision_tree import DecisionTree
from patallreduce.decisions.functions import Decide, DecisionMap, Point, map_of, penalty
from patallreduce.decisions.quadtree import Quadtree, quadtree
from patallreduce.decisions.times import Method, read_times
from patallreduce.decisions.tree_by_gain import c45
from patallreduce.decisions.tree_by_penalty import by_penalty
from patallreduce.pricing.schedules import algorithms
from patallreduce.tuning.measuring import COLLECTIVES

_OF = {"penalty": ("leaves",), "c45": ("weight", "confidence"), "quadtree": ("depth",)}
_SOURCES = {".py": code.python, ".h": code.cpp}
_FEWEST_SIZES = 3  # to hold some out

Function = DecisionTree | Quadtree


def add(commands: Commands) -> None:
    """Add the command to the command line; it returns what is to be printed."""
    about = "make a decision function of what tune measured: a tree of tests, and code of it"
    parser = commands.add_parser("decide", help=about, description=about)
    parser.add_argument(
        "times",
        nargs="+",
        type=Path,
        metavar="TIMES",
        help="what tune measured, JSON lines",
    )
    parser.add_argument(
        "--collective", default="all_reduce", choices=COLLECTIVES, help="default all_reduce"
    )
    parser.add_argument(
        "--several", action="store_true", help="of calls that have others in flight beside them"
    )
    parser.add_argument(
        "--function",
        default="penalty",
        choices=_OF,
        help="the tree whose choices cost least (default), that of C4.5, or a quadtree",
    )
    parser.add_argument("--leaves", type=int, metavar="N", help="penalty: at most so many (8)")
    parser.add_argument("--weight", type=int, metavar="M", help="c45: points on each side (2)")
    parser.add_argument(
        "--confidence", type=float, metavar="C", help="c45: less prunes more (0.25)"
    )
    parser.add_argument("--depth", type=int, metavar="N", help="quadtree: at most (exact)")
    parser.add_argument(
        "--code", type=Path, metavar="FILE", help="write it as Python (.py) or C++ (.h)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Make it; the text is what to print."""
    given = {name for names in _OF.values() for name in names if getattr(options, name) is not None}
    if wrong := sorted(given - {*_OF[options.function]}):
        raise ValueError(f"--{wrong[0]}: not of --function {options.function}")
    if options.code and options.code.suffix not in _SOURCES:
        raise ValueError(f"--code: expected a file .py or .h, got {options.code}")
    of = _measured(options.times, options.collective, several=options.several)
    made = _made(options, of)
    text = [str(made), "", _cost(f"On the {len(of)} points that it was made from", made, of)]
    sizes = sorted({size for _, size in of})
    if len(sizes) >= _FEWEST_SIZES:
        seen, unseen = (_part(of, sizes[first::2]) for first in (0, 1))
        text.append(
            _cost("Made from every second size, on the others", _made(options, seen), unseen)
        )
    if options.code:
        options.code.write_text(_SOURCES[options.code.suffix](made), encoding="utf-8")
        text.append(str(options.code))
    return "\n".join(text)


def _measured(paths: Sequence[Path], collective: str, *, several: bool) -> DecisionMap:
    of: dict[Point, dict[Method, float]] = {}
    known = algorithms(collective)
    for path in paths:
        found = map_of(read_times(path)[1], collective, beside_others=several)
        if again := {ranks for ranks, _ in found} & {ranks for ranks, _ in of}:
            raise ValueError(f"{path}: {min(again)} ranks were measured in a file before it, too")
        for point, times_s in found.items():
            ours_s = {method: s for method, s in times_s.items() if method.algorithm in known}
            if ours_s:
                of[point] = ours_s
    if not of:
        flight = "several" if several else "one"
        files = ", ".join(map(str, paths))
        raise ValueError(f"expected times of {collective}, {flight} in flight, got none in {files}")
    return of


def _made(options: argparse.Namespace, of: DecisionMap) -> Function:
    if options.function == "quadtree":
        return quadtree(of, most_depth=options.depth)
    if options.function == "penalty":
        return by_penalty(of, most_leaves=8 if options.leaves is None else options.leaves)
    weight = 2 if options.weight is None else options.weight
    confidence = 0.25 if options.confidence is None else options.confidence
    return c45(of, weight=weight, confidence=confidence)


def _part(of: DecisionMap, sizes: Sequence[int]) -> DecisionMap:
    return {(ranks, size): times_s for (ranks, size), times_s in of.items() if size in sizes}


def _cost(points: str, made: Decide, of: DecisionMap) -> str:
    try:
        cost = penalty(made, of)
    except ValueError:  # what is fastest elsewhere was not tried at any of them
        return f"{points} none of its choices was measured"
    text = (
        f"{points} its choices take {cost.mean:.1%} longer than the fastest (mean), 90 of 100 at "
        f"most {cost.ninety:.1%}, all at most {cost.most:.1%}"
    )
    return f"{text}; {cost.unknown} were not measured" if cost.unknown else text
