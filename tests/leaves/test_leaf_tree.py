"""The tree over leaves: the same sum whoever owns which leaves."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from patallreduce.leaves.tree import LeafTree, Node, maximal_subtrees, run_of


def text(leaves, first=0, height=None):
    """The sum as the definition has it, parenthesised."""
    if height is None:
        height = max(leaves - 1, 0).bit_length()
    if height == 0:
        return str(first)
    middle = first + (1 << height - 1)
    left = text(leaves, first, height - 1)
    return left if middle >= leaves else f"({left}+{text(leaves, middle, height - 1)})"


def add(left, right):
    return f"({left}+{right})"


def test_the_definition():
    assert text(1) == "0"
    assert text(7) == "(((0+1)+(2+3))+((4+5)+6))"


@given(st.integers(1, 200), st.data())
def test_any_runs_of_leaves_add_up_to_the_same_sum(leaves, data):
    cuts = data.draw(st.sets(st.integers(1, leaves), max_size=12))
    bounds = sorted({0, leaves} | cuts)
    whole = LeafTree(add)
    for begin, end in itertools.pairwise(bounds):
        run = LeafTree(add)
        for leaf in range(begin, end):
            run.append(Node(leaf, 0, str(leaf)))
            assert len(run.nodes) <= 2 * math.log2(leaf - begin + 1) + 1
        assert [(n.first, n.height) for n in run.nodes] == maximal_subtrees(range(begin, end))
        for node in run.nodes:
            whole.append(node)
    assert whole.total() == text(leaves)


@given(st.integers(1, 300))
def test_a_run_from_the_first_leaf_on_needs_half_as_many(leaves):
    tree = LeafTree(add)
    for leaf in range(leaves):
        tree.append(Node(leaf, 0, "x"))
        assert len(tree.nodes) <= math.log2(leaf + 1) + 1


@given(st.integers(1, 40), st.integers(0, 100))
def test_every_leaf_has_one_owner(ranks, more):
    leaves = ranks + more
    runs = [run_of(rank, ranks, leaves) for rank in range(ranks)]
    assert [leaf for run in runs for leaf in run] == list(range(leaves))
    assert max(map(len, runs)) - min(map(len, runs)) <= 1
