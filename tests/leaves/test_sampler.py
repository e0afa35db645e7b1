"""Every leaf gets the same elements on any number of ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patallreduce.leaves.sampler import LeafSampler
from patallreduce.leaves.tree import run_of


@given(st.integers(1, 6), st.integers(0, 8), st.integers(1, 4), st.integers(0, 40))
def test_leaves_do_not_depend_on_the_ranks(ranks, more, leaf_size, rest):
    leaves = ranks + more
    size = leaves * leaf_size + rest
    alone = LeafSampler(size, leaves=leaves, leaf_size=leaf_size, rank=0, ranks=1, seed=5)
    alone.set_epoch(3)
    whole = list(alone)
    assert len(whole) == len(alone) == alone.iterations * leaves
    assert len({i for leaf in whole for i in leaf}) == len(whole) * leaf_size
    for rank in range(ranks):
        sampler = LeafSampler(
            size, leaves=leaves, leaf_size=leaf_size, rank=rank, ranks=ranks, seed=5
        )
        sampler.set_epoch(3)
        mine = run_of(rank, ranks, leaves)
        expected = [whole[i * leaves + leaf] for i in range(sampler.iterations) for leaf in mine]
        assert list(sampler) == expected


def test_epochs_differ_and_no_seed_keeps_the_order():
    sampler = LeafSampler(24, leaves=3, leaf_size=4, rank=0, ranks=1)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    in_order = LeafSampler(24, leaves=3, leaf_size=4, rank=0, ranks=1, seed=None)
    assert [i for leaf in in_order for i in leaf] == list(range(24))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": 4}, "ranks <= leaves"),
        ({"rank": 2}, "rank < ranks"),
        ({"leaf_size": 0}, "leaf_size >= 1"),
        ({"size": 11}, "at least one global batch, got 11"),
    ],
)
def test_what_cannot_be_dealt_is_refused(arguments, message):
    size = arguments.pop("size", 24)
    given_ = {"leaves": 3, "leaf_size": 4, "rank": 0, "ranks": 2} | arguments
    with pytest.raises(ValueError, match=message):
        LeafSampler(size, **given_)
