"""Several collectives in flight on the same ports."""

import math

import pytest

import patallreduce as pat
from patallreduce import _core

LINK = pat.Link(50e-6, 25e6, 5e9)
MESSAGE_BYTES = 1 << 22
TRANSFER_S = MESSAGE_BYTES / LINK.bytes_per_s
ARRIVALS_S = [0.0, 0.11, 0.02, 0.3, 0.05, 0.07]
RANKS = len(ARRIVALS_S)


def prepared(name, segments, arrivals_s=()):
    return _core.Simulation(_core.generate(name, RANKS, segments, list(arrivals_s)))


def together(*collectives, busy=((), ()), pieces=1, turn="first_ready"):
    """(finish_s by collective, busy) of (simulation, ranks, arrivals_s) with equal bytes."""
    return _core.simulate_together(
        [
            (simulation, MESSAGE_BYTES, ranks, arrivals_s, pieces)
            for simulation, ranks, arrivals_s in collectives
        ],
        LINK,
        busy,
        turn,
    )


@pytest.mark.parametrize("name", ["ring", "slt", "prr", "recursive_doubling", "rabenseifner"])
def test_one_alone_takes_what_simulate_says(name):
    schedule = _core.generate(name, RANKS, 24, ARRIVALS_S)
    alone_s, _, _ = _core.simulate(schedule, MESSAGE_BYTES, ARRIVALS_S, LINK)
    (finish_s,), _ = together((_core.Simulation(schedule), [], ARRIVALS_S))
    assert finish_s == alone_s


def test_two_rings_share_the_ports_and_hide_each_others_latencies():
    ring, arrivals_s = prepared("ring", RANKS), [0.0] * RANKS
    (alone_s,), _ = together((ring, [], arrivals_s))
    both_s, _ = together((ring, [], arrivals_s), (ring, [], arrivals_s))
    wire_s = 2 * 2 * (RANKS - 1) / RANKS * TRANSFER_S
    assert wire_s < max(map(max, both_s)) < 2 * max(alone_s)
    assert max(both_s[0]) < max(both_s[1]), "what is ready at once leaves in their order"


@pytest.mark.parametrize(
    ("turn", "first"), [("first_collective", 0), ("last_collective", 1), ("least_left", 1)]
)
def test_another_order_lets_one_of_two_go_first(turn, first):
    """Twelve messages per rank of one ring, four of another, shorter one, ready all at once."""
    long, short, arrivals_s = prepared("ring", 6 * RANKS), prepared("ring", RANKS), [0.0] * RANKS
    both_s, _ = together((long, [], arrivals_s), (short, [], arrivals_s), turn=turn)
    fair_s, _ = together((long, [], arrivals_s), (short, [], arrivals_s))
    assert max(both_s[first]) < max(fair_s[first])


def test_an_order_that_is_not_known_is_refused():
    with pytest.raises(pat.ScheduleError, match="turn: expected first_ready, .* got sorted"):
        together((prepared("ring", RANKS), [], [0.0] * RANKS), turn="sorted")


def test_one_that_is_over_before_the_other_begins_does_not_disturb_it():
    ring, later_s = prepared("ring", RANKS), [10.0] * RANKS
    (alone_s,), _ = together((ring, [], [0.0] * RANKS))
    both_s, _ = together((ring, [], [0.0] * RANKS), (ring, [], later_s))
    assert both_s[0] == alone_s
    assert both_s[1] == pytest.approx([10 + finish_s for finish_s in alone_s])


def test_ranks_take_the_places_they_are_given():
    """A chain in order of arrival is the chain of ranks in order, renamed."""
    order = sorted(range(RANKS), key=ARRIVALS_S.__getitem__)
    own, _ = together((prepared("slt", 16, ARRIVALS_S), [], ARRIVALS_S))
    in_order_s = [ARRIVALS_S[rank] for rank in order]
    renamed, _ = together((prepared("slt", 16), order, in_order_s))
    assert [own[0][rank] for rank in order] == renamed[0]


def test_whose_port_is_whose_counts():
    """Two chains in opposite order are in each other's way less than two in the same."""
    chain, arrivals_s = prepared("slt", 16), [0.0] * RANKS
    there, back = list(range(RANKS)), list(range(RANKS))[::-1]
    same_s, _ = together((chain, there, arrivals_s), (chain, there, arrivals_s))
    opposite_s, _ = together((chain, there, arrivals_s), (chain, back, arrivals_s))
    assert max(map(max, opposite_s)) != max(map(max, same_s))


def test_ports_that_are_busy_are_waited_for():
    ring, arrivals_s = prepared("ring", RANKS), [0.0] * RANKS
    (alone_s,), (sends_until_s, receives_until_s) = together((ring, [], arrivals_s))
    assert max(receives_until_s) == pytest.approx(max(sends_until_s))
    assert max(sends_until_s) <= max(alone_s)
    busy = ([1.0] * RANKS, [-math.inf] * RANKS)
    (after_s,), _ = together((ring, [], arrivals_s), busy=busy)
    assert after_s == pytest.approx([1 + finish_s for finish_s in alone_s])
    one = ([-math.inf] * RANKS, [1.0, *[-math.inf] * (RANKS - 1)])
    (after_s,), _ = together((ring, [], arrivals_s), busy=one)
    assert max(after_s) > 1


def test_what_one_leaves_is_what_the_next_finds():
    """Run one after the other with the ports' times handed on, nothing is sent twice at a time."""
    ring = prepared("ring", RANKS)
    _, busy = together((ring, [], [0.0] * RANKS))
    (after_s,), _ = together((ring, [], [0.0] * RANKS), busy=busy)
    assert max(after_s) > max(busy[0]) + 2 * (RANKS - 1) / RANKS * TRANSFER_S


@pytest.mark.parametrize("arrivals_s", [ARRIVALS_S, [0.0] * RANKS], ids=["apart", "together"])
@pytest.mark.parametrize(("name", "segments"), [("slt", 8), ("ring", 6), ("prr", 6)])
@pytest.mark.parametrize("pieces", [2, 5, 16])
def test_pieces_do_what_as_many_more_segments_do(name, segments, pieces, arrivals_s):
    """Nearly: their first one is handed on as soon, and their last one is there as late.

    A rank that leaves early is taken to have waited for its last message's last piece.
    """
    order = sorted(range(RANKS), key=arrivals_s.__getitem__) if name == "slt" else []
    hints = arrivals_s if name == "prr" else ()
    in_order_s = [arrivals_s[rank] for rank in order] if order else arrivals_s
    coarse, fine = (prepared(name, n, hints) for n in (segments, segments * pieces))
    (handed_on_s,), _ = together((coarse, order, in_order_s), pieces=pieces)
    (finely_cut_s,), _ = together((fine, order, in_order_s))
    (whole_s,), _ = together((coarse, order, in_order_s))
    assert max(handed_on_s) == pytest.approx(max(finely_cut_s), rel=0.03)
    assert handed_on_s == pytest.approx(finely_cut_s, rel=0.08)
    if name == "slt":
        assert max(handed_on_s) < 0.95 * max(whole_s)


@pytest.mark.parametrize(
    ("collectives", "told"),
    [
        ([], "at least one collective"),
        ([("ring", [], [0.0] * (RANKS - 1))], f"expected {RANKS} arrivals, got {RANKS - 1}"),
        ([("ring", [], [])], f"expected {RANKS} arrivals, got 0"),
        ([("ring", [0] * RANKS, [0.0] * RANKS)], "each of 6 ranks at one place"),
        ([("ring", [0, 1], [0.0] * RANKS)], "each of 6 ranks at one place"),
        ([("ring", [], [0.0] * (RANKS - 1) + [math.inf])], "finite"),
    ],
)
def test_what_makes_no_sense_is_named(collectives, told):
    made = [(prepared(name, RANKS), ranks, arrivals_s) for name, ranks, arrivals_s in collectives]
    with pytest.raises(pat.ScheduleError, match=told):
        together(*made)


def test_collectives_of_different_ranks_and_wrong_ports_are_refused():
    ring = prepared("ring", RANKS)
    other = _core.Simulation(_core.generate("ring", 3, 3))
    with pytest.raises(pat.ScheduleError, match="same 6 ranks, got one of 3"):
        together((ring, [], [0.0] * RANKS), (other, [], [0.0] * 3))
    with pytest.raises(pat.ScheduleError, match="at least 1 piece per message, got 0"):
        together((ring, [], [0.0] * RANKS), pieces=0)
    with pytest.raises(pat.ScheduleError, match="expected 6 times each, got 2 and 2"):
        together((ring, [], [0.0] * RANKS), busy=([0.0] * 2, [0.0] * 2))
