import math
from fractions import Fraction

import pytest

import patallreduce as pat
from patallreduce.pricing.selection import choose_segments


def sent_segments(schedule, rank):
    return sum(s.last - s.first for s in schedule.steps(rank) if s.verb == "send")


@pytest.mark.parametrize("per_part", [1, 4])
@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_powers_of_two_send_as_much_as_a_ring(ranks, per_part):
    """2(P-1)/P of the data, in 2 log2 P messages; finer segments cut each message."""
    schedule = pat.schedule("rabenseifner", ranks, per_part * ranks)
    for rank in range(ranks):
        share = Fraction(sent_segments(schedule, rank), per_part * ranks)
        assert share == Fraction(2 * (ranks - 1), ranks)
        steps = [s for s in schedule.steps(rank) if s.verb == "send"]
        assert [s.round for s in steps[::per_part]] == list(range(2 * int(math.log2(ranks))))
        assert len(steps) == per_part * 2 * math.log2(ranks)


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 9, 12, 17, 48])
def test_other_numbers_of_ranks_move_little_more(ranks):
    """Folding would cost the largest block's ranks a whole message more, in and out."""
    largest = 2 ** int(math.log2(ranks))
    schedule = pat.schedule("rabenseifner", ranks, largest)
    for rank in range(largest):
        assert sent_segments(schedule, rank) == 2 * (largest - 1) + 1
    for rank in range(largest, ranks):
        assert sent_segments(schedule, rank) <= 2 * largest


@pytest.mark.parametrize("segments", [1, 3, 8, 21, 64])
@pytest.mark.parametrize("ranks", [3, 4, 6, 7, 15])
def test_both_ends_of_a_message_are_in_one_round(ranks, segments):
    schedule = pat.schedule("rabenseifner", ranks, segments)
    last = 2 * int(math.log2(ranks)) + 2 * (ranks.bit_count() - 1)
    for rank in range(ranks):
        rounds = [s.round for s in schedule.steps(rank)]
        assert rounds == sorted(rounds)
        for peer in range(ranks):
            sent = [s.round for s in schedule.steps(rank) if (s.verb, s.peer) == ("send", peer)]
            taken = [s.round for s in schedule.steps(peer) if s.peer == rank and s.verb != "send"]
            assert sent == taken
            assert set(sent) <= set(range(last))


def test_six_ranks_as_drawn():
    """The drawing at the head of the source: blocks 0 1 2 3 | 4 5, four parts."""
    schedule = pat.schedule("rabenseifner", 6, 4)
    assert [(s.verb, s.peer, s.first, s.last) for s in schedule.steps(4)] == [
        ("send", 5, 2, 4),
        ("recv_reduce", 5, 0, 2),
        ("send", 0, 0, 1),
        ("send", 1, 1, 2),
        ("recv", 0, 0, 1),
        ("recv", 1, 1, 2),
        ("send", 5, 0, 2),
        ("recv", 5, 2, 4),
    ]


def test_every_part_is_summed_by_its_tree(unordered):
    """The blocks halve, and the smaller block's sum is added to the larger one's."""
    orders = pat.schedule("rabenseifner", 6, 4).sum_orders()
    tree = unordered((((0, 2), (1, 3)), (4, 5)))
    assert {unordered(order) for row in orders for order in row} == {tree}


@pytest.mark.parametrize(("ranks", "largest"), [(2, 2), (3, 2), (6, 4), (8, 8), (48, 32)])
def test_chosen_segments_are_parts_of_the_largest_block(ranks, largest):
    for link in (pat.Link(20e-6, 1e9), pat.Link(50e-6, 25e6)):
        assert choose_segments("rabenseifner", ranks, 4 << 20, 1 << 20, link) == largest
    assert choose_segments("rabenseifner", ranks, 1 << 28, 1 << 26, link) % largest == 0
    assert choose_segments("rabenseifner", ranks, 4, 1, link) == 1
