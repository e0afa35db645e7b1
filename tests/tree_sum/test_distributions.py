"""The distributions, their message counts, and who holds what."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patallreduce import _core, distributions
from tests.tree_sum.reference import DISTRIBUTIONS


def counted_one_by_one(counts):
    """Equation 3.5, index by index."""
    rank_of = [rank for rank, count in enumerate(counts) for _ in range(count)]
    return sum(rank_of[x] != rank_of[x & (x - 1)] for x in range(1, len(rank_of)))


@pytest.mark.parametrize(
    ("name", "messages"), [("lower", 1640), ("upper", 1401), ("power", 256), ("optimized", 557)]
)
def test_published_message_counts(name, messages):
    """Section 3.1.2: on 256 ranks. 621 is printed for the last; Algorithm 3 gives 557."""
    counts = DISTRIBUTIONS[name](504_850, 256)
    assert distributions.message_count(counts) == messages
    assert distributions.message_count(counts, buffered=True) <= messages


def test_published_worst_case():
    """Figure B.5: N = 2^2 P + 1 on 4 ranks shifts every start, N = 2^2 P none."""
    assert distributions.message_count(distributions.even_lower(16, 4)) == 3
    assert distributions.message_count(distributions.even_lower(17, 4)) == 9
    assert distributions.message_bound(17, 4) == 9


@given(st.integers(0, 5000), st.integers(1, 64), st.floats(0, 1))
def test_every_distribution_deals_out_all_elements(elements, ranks, deviation):
    made = [function(elements, ranks) for function in DISTRIBUTIONS.values()]
    made.append(distributions.optimized(elements, ranks, deviation))
    for counts in made:
        assert len(counts) == ranks
        assert sum(counts) == elements
        assert min(counts) >= 0
        assert distributions.message_count(counts) == counted_one_by_one(counts)


@given(st.integers(1, 300_000), st.integers(2, 300))
def test_messages_stay_within_the_bound(elements, ranks):
    elements += ranks
    messages = distributions.message_count(distributions.even_lower(elements, ranks))
    assert messages <= distributions.message_bound(elements, ranks)


def test_the_bound_over_a_sweep():
    """All N up to 40 P: for the lower distribution always; for the upper one nearly so."""
    cases = [(n, p) for p in range(2, 40) for n in range(p + 1, 40 * p)]
    above = dict.fromkeys(DISTRIBUTIONS, 0)
    for elements, ranks in cases:
        bound = distributions.message_bound(elements, ranks)
        for name, deal in (
            ("lower", distributions.even_lower),
            ("upper", distributions.even_upper),
        ):
            above[name] += distributions.message_count(deal(elements, ranks)) > bound
    assert above["lower"] == 0
    assert above["upper"] < 0.01 * len(cases)
    assert distributions.message_count(distributions.even_upper(3, 2)) == 2
    assert distributions.message_bound(3, 2) == 1


def test_the_bound_is_reached():
    for level in range(1, 12):
        for ranks in (2, 3, 7, 48):
            elements = 2**level * ranks + 1
            counts = distributions.even_lower(elements, ranks)
            reached = distributions.message_count(counts)
            assert reached <= distributions.message_bound(elements, ranks)
            if ranks & (ranks - 1) == 0:
                assert reached == (ranks - 1) * (level + 1)


@given(st.integers(0, 100_000), st.integers(1, 300), st.floats(0, 1))
def test_optimized_starts_move_down_no_further_than_allowed(elements, ranks, deviation):
    even = distributions.even_upper(elements, ranks)
    optimized = distributions.optimized(elements, ranks, deviation)
    for rank in range(ranks):
        moved = sum(even[:rank]) - sum(optimized[:rank])
        assert 0 <= moved <= deviation * elements / ranks + 1e-9
    assert distributions.message_count(optimized) <= distributions.message_count(even)


def test_power_of_two_leaves_the_rest_to_the_last_rank():
    assert distributions.power_of_two(30, 4) == [4, 4, 4, 18]
    assert distributions.power_of_two(3, 5) == [1, 1, 1, 0, 0]


@given(st.lists(st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 2000)), min_size=1))
def test_rank_of_an_index(counts):
    """Equation 3.4, from evenly dealt to all in one place."""
    elements = sum(counts)
    wanted = [rank for rank, count in enumerate(counts) for _ in range(count)]
    assert _core.ranks_of(counts, list(range(elements))) == wanted
    assert distributions.message_count(counts) == counted_one_by_one(counts)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_the_messages_carry_every_root_to_its_parents_rank(counts):
    rank_of = [rank for rank, count in enumerate(counts) for _ in range(count)]
    messages = _core.tree_messages(counts)
    sent = [root for _, _, roots in messages for root in roots]
    wanted = [x for x in range(1, len(rank_of)) if rank_of[x] != rank_of[x & (x - 1)]]
    assert sent == wanted
    for sender, receiver, roots in messages:
        assert 1 <= len(roots) <= 4
        assert all(rank_of[x] == sender and rank_of[x & (x - 1)] == receiver for x in roots)
        # A value that is finished does not wait for the sum of more than 64 elements.
        assert all(x & -x <= 64 for x in roots[1:])
    for (a, to_a, roots_a), (b, to_b, roots_b) in itertools.pairwise(messages):
        alike = (a, to_a) == (b, to_b)
        assert not alike or len(roots_a) == 4 or roots_b[0] & -roots_b[0] > 64


@pytest.mark.parametrize("function", DISTRIBUTIONS.values())
def test_bad_arguments_are_named(function):
    with pytest.raises(ValueError, match="elements: expected a number >= 0, got -1"):
        function(-1, 3)
    with pytest.raises(ValueError, match="ranks: expected a number >= 1, got 0"):
        function(3, 0)
    with pytest.raises(TypeError):
        function(2.5, 3)


def test_bad_distributions_are_named():
    with pytest.raises(ValueError, match="expected counts >= 0, got -2 for rank 1"):
        distributions.message_count([3, -2])
    with pytest.raises(ValueError, match="more than"):
        distributions.message_count([2**62, 2**62])
    for deviation in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="deviation: expected a number within"):
            distributions.optimized(10, 2, deviation)
    with pytest.raises(ValueError, match="expected an index below 3, got 3"):
        _core.ranks_of([3], [3])
