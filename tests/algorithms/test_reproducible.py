"""The reproducible all-reduce as a schedule: the tree, its holders, what the verifier proves."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Schedule, Step
from patallreduce.pricing.selection import choose_segments
from tests.reproducible.tree import tree

SLOW_NETWORK = pat.Link(50e-6, 25e6)


def steps_of(schedule):
    return [schedule.steps(rank) for rank in range(schedule.ranks)]


@given(
    ranks=st.integers(1, 40),
    segments=st.integers(1, 130),
    late=st.integers(0, 39),
)
@settings(max_examples=200, derandomize=True, database=None)
def test_every_segment_is_the_tree_for_any_ranks_segments_and_arrivals(ranks, segments, late):
    arrivals_s = [float(rank == late) for rank in range(ranks)]
    schedule = pat.schedule("reproducible", ranks, segments, arrivals_s)
    assert schedule.tree
    pat.verify(schedule)
    assert steps_of(schedule) == steps_of(pat.schedule("reproducible", ranks, segments))


@pytest.mark.parametrize("ranks", range(1, 41))
def test_the_sum_order_is_that_of_the_paper(ranks, unordered):
    """Against the tree built level by level; the verifier builds it from the nodes."""
    expected = unordered(tree(range(ranks), lambda a, b: (a, b)))
    for segments in (1, 2, ranks, 2 * ranks + 1):
        orders = pat.schedule("reproducible", ranks, segments).sum_orders()
        assert {unordered(order) for row in orders for order in row} == {expected}


@pytest.mark.parametrize("name", [n for n in pat.algorithms() if not pat.schedule(n, 1).tree])
def test_the_verifier_refuses_every_other_order(name):
    """The other algorithms are right all-reduces of 6 ranks, but not this tree."""
    steps = steps_of(pat.schedule(name, 6, 12, [0.0, 3.0, 1.0, 0.0, 2.0, 0.0]))
    pat.verify(Schedule.from_steps(steps, 12))
    with pytest.raises(pat.ScheduleError, match=r"expected the tree \(\(\(0\+1\)\+\(2\+3\)\)\+\(4"):
        pat.verify(Schedule.from_steps(steps, 12, tree=True))


def test_the_verifier_names_rank_segment_and_both_orders():
    """A chain over three ranks is the tree; from the other end it is not."""

    def chain(order):
        steps = [[], [], []]
        for a, b in itertools.pairwise(order):
            steps[a].append(Step("send", b, 0, 1))
            steps[b].append(Step("recv_reduce", a, 0, 1))
        for rank in order[:-1]:
            steps[order[-1]].append(Step("send", rank, 0, 1))
            steps[rank].append(Step("recv", order[-1], 0, 1))
        return Schedule.from_steps(steps, 1, tree=True)

    pat.verify(chain([0, 1, 2]))
    pat.verify(chain([1, 0, 2]))
    message = r"rank 0 .*segment 0 is summed as \(\(2\+1\)\+0\), expected the tree \(\(0\+1\)\+2\)"
    with pytest.raises(pat.ScheduleError, match=message):
        pat.verify(chain([2, 1, 0]))


@pytest.mark.parametrize("verb", ["send", "recv"])
@pytest.mark.parametrize("cuts", [1, 3])
@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_powers_of_two_move_as_much_as_a_ring(ranks, cuts, verb):
    """Every rank sends and receives 2(P-1)/P of the data, one peer at each height."""
    schedule = pat.schedule("reproducible", ranks, ranks * cuts)
    for rank in range(ranks):
        mine = [s for s in schedule.steps(rank) if (s.verb == "send") == (verb == "send")]
        assert len(mine) == 2 * (ranks - 1) * cuts
        for height in range(ranks.bit_length() - 1):
            assert {s.peer for s in mine if s.round == height} == {rank ^ (1 << height)}


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 9, 11, 12, 13, 23, 40])
def test_other_numbers_of_ranks_move_what_the_head_of_the_source_says(ranks):
    """1 + the sum of 1 / (ranks of the node) over its nodes below the root with two children."""
    segments = choose_segments("reproducible", ranks, 1 << 28, 1 << 26, SLOW_NETWORK)
    schedule = pat.schedule("reproducible", ranks, segments)
    height = (ranks - 1).bit_length()
    for rank in range(ranks):
        taken = sum(step.verb != "send" for step in schedule.steps(rank))
        expected = Fraction(1)
        for y in range(1, height):
            first = rank >> y << y
            size = min(2**y, ranks - first)
            expected += Fraction(size > 2 ** (y - 1), size)
        rounding = Fraction(height, segments)
        assert abs(Fraction(taken, segments) - expected) <= rounding
        assert expected < 2


@given(ranks=st.integers(2, 40), segments=st.integers(1, 130))
@settings(max_examples=50, derandomize=True, database=None)
def test_both_ends_of_a_message_are_in_one_round_and_rounds_only_rise(ranks, segments):
    schedule = pat.schedule("reproducible", ranks, segments)
    ends: Counter = Counter()
    for rank, steps in enumerate(steps_of(schedule)):
        assert [s.round for s in steps] == sorted(s.round for s in steps)
        for s in steps:
            sent = s.verb == "send"
            pair = (rank, s.peer) if sent else (s.peer, rank)
            ends[(*pair, s.first, s.round)] += 1 if sent else -1
    assert not any(ends.values())


def test_five_ranks_and_one_segment_are_the_tree_itself():
    schedule = pat.schedule("reproducible", 5, 1)
    sums = [
        (rank, s.peer, s.round)
        for rank, steps in enumerate(steps_of(schedule))
        for s in steps
        if s.verb == "recv_reduce"
    ]
    assert len(sums) == 4
    assert sorted(height for _, _, height in sums) == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("ranks", "segments"), [(2, 16), (3, 6), (5, 20), (8, 64), (12, 24), (17, 136)]
)
def test_chosen_segments_deal_the_left_subtree_evenly(ranks, segments):
    assert choose_segments("reproducible", ranks, 4 << 20, 1 << 20, SLOW_NETWORK) == segments
    assert choose_segments("reproducible", ranks, 4, 1, SLOW_NETWORK) == 1
    assert choose_segments("reproducible", ranks, 1 << 30, 1 << 28, SLOW_NETWORK) % ranks == 0


def test_auto_never_prices_it():
    selector = pat._core.Selector(8, pat.Link(50e-6, 25e6, 5e9))
    names = {row[0] for row in selector.price_all(1 << 20, 4, [0.0] * 8)}
    assert "ring" in names
    assert "reproducible" not in names
