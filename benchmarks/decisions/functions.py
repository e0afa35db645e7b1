"""The decision functions that are compared on a map: encoded ones, predicting ones, fixed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.lab.plan import Record
from patallreduce.decisions.decision_tree import DecisionTree
from patallreduce.decisions.functions import Decide, DecisionMap, Point, fastest
from patallreduce.decisions.quadtree import Quadtree, quadtree
from patallreduce.decisions.times import Method
from patallreduce.decisions.tree_by_gain import c45
from patallreduce.decisions.tree_by_penalty import by_penalty

from .models import chosen_by, models_of

DEPTHS = (1, 2, 3, 4)
C45 = ((2, 0.25), (4, 0.25), (8, 0.25), (10, 0.05), (20, 0.05))  # -m, -c
COMPOSITE = ("ranks", "bytes", "total_bytes", "odd_ranks", "not_power_of_two")
LEAVES = (4, 8, 16)


class Function(NamedTuple):
    """One of them.

    Args:
        name: What it is called.
        decide: What it does.
        leaves: How large it is; 0: nothing is kept.
        encoded: The tree, if it is one.
    """

    name: str
    decide: Decide
    leaves: int = 0
    encoded: DecisionTree | Quadtree | None = None


def point_of(record: Record) -> Point:
    """Where on the map."""
    return record["ranks"], record["message_bytes"]


def map_of(records: list[Record]) -> DecisionMap:
    """Methods that are cut by their own rule, which is what an encoded function chooses among."""
    return {
        point_of(record): {
            Method(name): record["seconds"][way] for name, way in record["own"].items()
        }
        for record in records
    }


def encoded(of: DecisionMap) -> Iterator[Function]:
    """Made from the points of a map."""
    for depth in DEPTHS:
        made = quadtree(of, most_depth=depth)
        yield Function(f"quadtree, depth {depth}", made, len(made.methods()), made)
    exact = quadtree(of)
    yield Function("quadtree, exact", exact, len(exact.methods()), exact)
    loose = quadtree(of, accuracy=0.8)
    yield Function("quadtree, accuracy 80 %", loose, len(loose.methods()), loose)
    for weight, confidence in C45:
        tree = c45(of, weight=weight, confidence=confidence)
        name = f"C4.5 -m {weight} -c {confidence:.0%}".replace("%", "")
        yield Function(name, tree, len(tree.leaves()), tree)
    tree = c45(of, attributes=COMPOSITE)
    yield Function("C4.5, composite", tree, len(tree.leaves()), tree)
    for leaves in LEAVES:
        tree = by_penalty(of, most_leaves=leaves)
        yield Function(f"by penalty, {leaves} leaves", tree, len(tree.leaves()), tree)
    yield _cart(of)


def _cart(of: DecisionMap) -> Function:
    """The tree of another library, which knows classes and no times."""
    from sklearn.tree import DecisionTreeClassifier

    points = sorted(of)
    names = sorted({fastest(of[point]) for point in points})
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
    tree.fit(points, [names.index(fastest(of[point])) for point in points])
    return Function(
        "CART (scikit-learn)",
        lambda ranks, size: names[int(tree.predict([(ranks, size)])[0])],
        int(tree.get_n_leaves()),
    )


def predicting(records: list[Record], parameters: list[Record]) -> dict[str, dict[Point, str]]:
    """What models and fixed rules choose at each point: the way, as its record has it."""
    models = {record["ranks"]: models_of(record) for record in parameters}
    chosen: dict[str, dict[Point, str]] = {}
    for record in records:
        told = {
            "usual algorithm": record["chosen"]["usual"],
            "Open MPI, fixed": record["chosen"]["open_mpi"],
            "this package's model": record["chosen"]["model"],
            **{name: chosen_by(model, record) for name, model in models[record["ranks"]].items()},
        }
        for name, way in told.items():
            chosen.setdefault(name, {})[point_of(record)] = way
    return chosen
