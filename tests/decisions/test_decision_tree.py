"""Decision trees, by hand and by the textbook."""

import random

import pytest

from patallreduce.decisions.decision_tree import Branch, Leaf
from patallreduce.decisions.functions import fastest, penalty
from patallreduce.decisions.times import Method
from patallreduce.decisions.tree_by_gain import c45, information, upper_limit
from patallreduce.decisions.tree_by_penalty import by_penalty

A, B, C = Method("ring"), Method("slt"), Method("rabenseifner")


def of_classes(classes):
    """Points (ranks, bytes) -> the fastest method, which takes 1; the others take 2."""
    return {
        point: {method: 1.0 if method == best else 2.0 for method in (A, B, C)}
        for point, best in classes.items()
    }


def test_information():
    """Quinlan's set of 14 days, 9 of one class: 0.940 bits."""
    assert information([9, 5]) == pytest.approx(0.940, abs=5e-4)
    assert information([4, 4]) == 1
    assert information([7]) == 0


@pytest.mark.parametrize(
    ("errors", "cases", "limit"), [(0, 6, 0.206), (0, 9, 0.143), (0, 1, 0.750), (1, 16, 0.157)]
)
def test_upper_limits_of_the_textbook(errors, cases, limit):
    """Quinlan (1993), section 4.2, with a confidence of 25 %; his last one is an approximation."""
    pytest.importorskip("scipy")
    assert upper_limit(errors, cases, 0.25) == pytest.approx(limit, abs=3e-3 if errors else 5e-4)


def test_the_textbook_s_tree_is_pruned_to_a_leaf():
    """Leaves of 9, 1 and 6 cases, 3.273 errors expected; one leaf with 1 of 16 wrong, 2.512."""
    pytest.importorskip("scipy")
    of = of_classes({(2, n): B if n == 10 else A for n in range(1, 17)})
    whole = c45(of, weight=1, confidence=None)
    assert sorted(leaf.cases for leaf in whole.leaves()) == [1, 6, 9]
    assert c45(of, weight=1).root == Leaf(A, 16, 1)
    assert c45(of, weight=1, confidence=0.9) == whole  # hardly anything is pruned


def test_by_hand():
    """Bytes tell all but one; ranks tell that one."""
    classes = {(p, m): A if m <= 4 else B for p in (2, 4, 8) for m in (1, 4, 16, 64)}
    tree = c45(of_classes(classes), confidence=None)
    assert tree.root == Branch("bytes", 4, Leaf(A, 6, 0), Leaf(B, 6, 0))
    classes[8, 64] = classes[8, 16] = C
    tree = c45(of_classes(classes), confidence=None)
    assert tree.root == Branch(
        "bytes", 4, Leaf(A, 6, 0), Branch("ranks", 4, Leaf(B, 4, 0), Leaf(C, 2, 0))
    )
    assert str(tree).splitlines() == [
        "bytes <= 4: ring (6/0)",
        "bytes > 4:",
        "    ranks <= 4: slt (4/0)",
        "    ranks > 4: rabenseifner (2/0)",
    ]
    assert all(tree(*point) == method for point, method in classes.items())
    # Both sides of a test need so many cases.
    assert len(c45(of_classes(classes), weight=3, confidence=None).leaves()) == 2


def test_a_composite_attribute_tells_what_two_do_not():
    classes = {(p, m): A if p * m <= 32 else B for p in (2, 4, 8) for m in (1, 2, 4, 8, 16)}
    of = of_classes(classes)
    assert len(c45(of, weight=1, confidence=None).leaves()) > 2
    tree = c45(of, weight=1, confidence=None, attributes=("ranks", "bytes", "total_bytes"))
    assert tree.root == Branch("total_bytes", 32, Leaf(A, 12, 0), Leaf(B, 3, 0))
    odd = of_classes({(p, 1): A if p % 2 else B for p in range(2, 10)})
    assert len(c45(odd, confidence=None, attributes=("ranks", "odd_ranks")).leaves()) == 2


def test_a_penalty_counts_costs_not_cases():
    """Three cases lose 1 % each by A; one loses 900 % by B."""
    of = {(2, n): {A: 1.01, B: 1.0} for n in (1, 2, 3)} | {(2, 9): {A: 1.0, B: 10.0}}
    assert by_penalty(of, most_leaves=1).root == Leaf(A, 4, 3)
    assert by_penalty(of).root == Branch("bytes", 3, Leaf(B, 3, 0), Leaf(A, 1, 0))
    assert by_penalty(of, least_saved=0.01).root == Leaf(A, 4, 3)


def test_two_tests_may_save_what_none_saves_alone():
    of = {(p, m): {A: 1.0 + (p != m), B: 1.0 + (p == m)} for p in (2, 4) for m in (2, 4)}
    tree = by_penalty(of)
    assert len(tree.leaves()) == 4
    assert all(tree(*point) == fastest(of[point]) for point in of)


def test_more_leaves_cost_no_more():
    draw = random.Random(5)
    of = {
        (p, 4**n): {method: draw.uniform(1, 2) for method in (A, B, C)}
        for p in range(2, 9)
        for n in range(8)
    }
    costs = [penalty(by_penalty(of, most_leaves=n), of).mean for n in (1, 2, 4, 8, 16)]
    assert costs == sorted(costs, reverse=True)
    exact = c45(of, weight=1, confidence=None)
    assert all(exact(*point) == fastest(of[point]) for point in of)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda of: c45({}), "points of a decision map"),
        (lambda of: c45(of, weight=0), "weight >= 1"),
        (lambda of: c45(of, confidence=1.0), "below 1"),
        (lambda of: c45(of, attributes=("colour",)), "expected some of ranks, bytes"),
        (lambda of: by_penalty(of, most_leaves=0), "most_leaves >= 1"),
    ],
)
def test_what_makes_no_sense(call, text):
    with pytest.raises(ValueError, match=text):
        call(of_classes({(2, 1): A}))
