"""BTR22's use: the search must not depend on the number of ranks, and without the tree it does."""

from log_likelihood import START, SUMS, observed, per_site, search

RANKS = (1, 2, 3, 4)
SIZE = {"sites": 10_000, "steps": 450}


def searches(name):
    return [search(ranks, **SIZE, add=SUMS[name]) for ranks in RANKS]


def test_one_search_with_tree_sums():
    assert len(set(searches("tree_sum"))) == 1


def test_different_searches_with_plain_sums():
    """Else the test above could not fail. Not only the sum differs: decisions do."""
    paths = searches("plain")
    assert len({path.decisions for path in paths}) > 1
    assert len({path.parameters for path in paths}) > 1


def test_the_search_climbs():
    path = search(2, **SIZE, add=SUMS["tree_sum"])
    low, high = sorted(path.parameters[:2])
    assert abs(low + 1) < 0.3
    assert abs(high - 2) < 0.3
    assert 10 < path.decisions.count("+") < 440


def test_a_site_has_the_same_bits_wherever_it_lies():
    """What the caller must see to: the values themselves must not depend on the ranks."""
    sites = observed(1000)
    whole = per_site(START, sites)
    for begin in (1, 3, 500):
        assert per_site(START, sites[begin:].clone()).equal(whole[begin:])
