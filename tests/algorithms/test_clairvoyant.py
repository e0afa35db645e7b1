"""Clairvoyant's schedules: the papers' own, their lengths, and four ways that make the same."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from benchmarks import clairvoyant_rivals
from benchmarks.clairvoyant_rivals import WAYS
from patallreduce import _core


def made_by(implementation, *problem, **fields):
    return clairvoyant_rivals.Made(implementation, *problem, **fields).schedule()


def steps_of(schedule):
    return [schedule.steps(rank) for rank in range(schedule.ranks)]


def rounds_of(schedule):
    """How many; the root receives in the last one."""
    return 1 + max(step.round for step in schedule.steps(schedule.root))


def table(schedule):
    """CLV16's Table 2: rank -> (received, sent), each a (peer, segment) or None per round."""
    rounds = rounds_of(schedule)
    rows = {}
    for rank in range(schedule.ranks):
        received, sent = [None] * rounds, [None] * rounds
        for step in schedule.steps(rank):
            row = sent if step.verb == "send" else received
            assert row[step.round] is None, "one message each way per round"
            row[step.round] = (step.peer, step.first)
        rows[rank] = (received, sent)
    return rows


# CLV16, Table 2, with these cells read otherwise than the text at hand has them:
# - round 2, rank 1 sends: "(2,2)" is a slip for (3, 2): rank 2 receives from rank 0 in that round,
#   and rank 3's own row has the message from rank 1;
# - round 3: the text has 2 -> 1 and 0 -> 3 with segment 3 ("(3,3)", "(2,3)", "(1,3)", "(0,3)" in
#   four rows) for 0 -> 1 and 2 -> 3. Algorithm 1 gives rank 1 the first rank that can send segment
#   3, which is rank 0 while ties go by rank. The text's cells come out if the ranks stand in the
#   order 0 2 3 1 in that round: see test_the_tables_third_round_is_another_order_of_ties.
TABLE_2 = {
    0: (
        [(1, 0), (2, 0), (1, 1), (2, 2), (1, 3)],
        [(1, 1), (2, 2), (1, 3), None, None],
    ),
    1: (
        [(0, 1), (3, 1), (0, 3), (3, 3), None],
        [(0, 0), (3, 2), (0, 1), None, (0, 3)],
    ),
    2: (
        [(3, 0), (0, 2), (3, 2), None, None],
        [(3, 1), (0, 0), (3, 3), (0, 2), None],
    ),
    3: (
        [(2, 1), (1, 2), (2, 3), None, None],
        [(2, 0), (1, 1), (2, 2), (1, 3), None],
    ),
}


@pytest.mark.parametrize("implementation", WAYS)
def test_the_schedule_of_table_2(implementation):
    assert table(made_by(implementation, 4, 4)) == TABLE_2


def play_round(round_, group, held, segments):
    """Lines 12-38 of CLV20's Listing 2 for a group, the sink first: (round, from, to, segment)."""
    has_sent, messages = set(), []
    for to in group:
        wanted = range(segments) if to == group[0] else sorted(held[to])
        found = [
            (segment, peer)
            for segment in wanted
            for peer in group
            if peer != to and peer not in has_sent and segment in held[peer]
        ]
        if found:
            segment, peer = found[0]
            has_sent.add(peer)
            held[peer].discard(segment)
            held[to].discard(segment)  # P': not to be sent in this round
            messages.append((round_, peer, to, segment))
    for _, _, to, segment in messages:
        held[to].add(segment)
    return messages


def listing(ranks, segments, arrivals_s, round_s, root):
    """All rounds, idle ones one by one; groups by sorting, as in CLV20's Listing 6."""
    held = {rank: set(range(segments)) for rank in range(ranks)}
    available_s = dict(enumerate(arrivals_s))
    messages, rounds = [], 0
    while len(available_s) > 1:
        first_s = min(available_s.values())
        group = [rank for rank in available_s if available_s[rank] < first_s + round_s]
        group.sort(key=lambda rank: (rank != root, available_s[rank], arrivals_s[rank], rank))
        if len(group) > 1:
            messages += play_round(rounds, group, held, segments)
            rounds += 1
        for rank in group:
            available_s[rank] += round_s
            if not held[rank]:
                del available_s[rank]
    assert list(available_s) == [root]
    return messages


def messages_of(schedule):
    return [
        (step.round, rank, step.peer, step.first)
        for rank in range(schedule.ranks)
        for step in schedule.steps(rank)
        if step.verb == "send"
    ]


def test_the_tables_third_round_is_another_order_of_ties():
    by_rank, as_printed = [0, 1, 2, 3], [0, 2, 3, 1]

    def play(orders):
        held = {rank: {0, 1, 2, 3} for rank in range(4)}
        return {
            message
            for round_, group in enumerate(orders)
            for message in play_round(round_, group, held, 4)
        }

    ours = play([by_rank] * 5)
    assert ours == set(messages_of(made_by("linear", 4, 4)))
    printed = play([by_rank, by_rank, as_printed, by_rank, by_rank])
    assert ours - printed == {(2, 0, 1, 3), (2, 2, 3, 3)}
    assert printed - ours == {(2, 2, 1, 3), (2, 0, 3, 3)}


@pytest.mark.parametrize("implementation", WAYS)
def test_a_late_rank_finds_the_others_reduced(implementation):
    """CLV16, Fig. 8: three ranks take five rounds, the late fourth four more."""
    schedule = made_by(implementation, 4, 4, [0, 0, 0, 5.0], segment_time_s=1.0)
    assert rounds_of(schedule) == 9
    assert {step.round for step in schedule.steps(3)} == {5, 6, 7, 8}
    assert max(step.round for done in (1, 2) for step in schedule.steps(done)) == 4


@pytest.mark.parametrize("implementation", WAYS)
def test_what_was_received_in_a_round_is_not_sent_in_it(implementation):
    """CLV20, section 4.2: without the state P' ranks 0 and 1 would send on in round 1."""
    schedule = made_by(implementation, 4, 4, [0, 0, 0, 1.1], segment_time_s=1.0)
    pat.verify(schedule)
    for steps in steps_of(schedule):
        for round_ in {step.round for step in steps}:
            touched = [step.first for step in steps if step.round == round_]
            assert len(touched) == len(set(touched))


POWERS = [4, 8, 16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize("ranks", POWERS)
def test_as_many_rounds_as_the_bound_for_equal_arrivals(ranks):
    """CLV16, section 5.4: log2 P + N - 1 for all powers of two from 4 to 512, equal arrivals."""
    for segments in POWERS:
        schedule = pat.schedule("clairvoyant", ranks, segments, collective="reduce")
        assert rounds_of(schedule) == math.log2(ranks) + segments - 1


def test_one_segment_is_a_binomial_tree():
    """CLV16, section 5.4: in every round half of those who are left send to the other half."""
    schedule = made_by("segment_tree", 16, 1)
    sent = [round_ for round_, *_ in messages_of(schedule)]
    assert [sent.count(round_) for round_ in range(4)] == [8, 4, 2, 1]


def random_problem(choose, most):
    """Arrivals uniform, skewed, tied, far apart; rounds from very short to longer than all."""
    ranks, segments = choose.randint(1, most), choose.randint(1, most)
    kind = choose.choice(["uniform", "skewed", "tied", "multiples", "far", "equal", "none"])
    arrivals_s = {
        "uniform": lambda: [choose.uniform(0, ranks + 0.1) for _ in range(ranks)],
        "skewed": lambda: [*[0.0] * (ranks - 1), float(segments)],
        "tied": lambda: [float(choose.randint(0, 5)) for _ in range(ranks)],
        "multiples": lambda: [choose.randint(0, 9) * 0.1 for _ in range(ranks)],
        "far": lambda: [choose.choice([0.0, 1e-9, 1.0, 1e6, 1e15]) for _ in range(ranks)],
        "equal": lambda: [7.25] * ranks,
        "none": list,
    }[kind]()
    return {
        "ranks": ranks,
        "segments": segments,
        "arrivals_s": arrivals_s,
        "root": choose.randrange(ranks),
        "segment_time_s": choose.choice([0.0, 0.1, 0.5, 1.0, choose.uniform(0.001, 1), 1e3]),
    }


def assert_equal_and_right(problem):
    first, *others = [made_by(implementation, **problem) for implementation in WAYS]
    for other in others:
        assert steps_of(other) == steps_of(first), problem
    pat.verify(first)
    rank = problem["root"] // 2
    assert _core.generate_steps("clairvoyant", rank, **problem, collective="reduce") == first.steps(
        rank
    )


@pytest.mark.parametrize("seed", range(10))
def test_all_make_the_same_schedule(seed):
    choose = random.Random(seed)
    for _ in range(10):
        assert_equal_and_right(random_problem(choose, 32))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_all_make_the_same_thousand_schedules(seed):
    choose = random.Random(1000 + seed)
    for _ in range(10):
        assert_equal_and_right(random_problem(choose, 64))


@st.composite
def problems(draw):
    ranks = draw(st.integers(1, 12))
    seconds = st.floats(0, 10) | st.integers(0, 3).map(float)  # the integers make ties
    return {
        "ranks": ranks,
        "segments": draw(st.integers(1, 70)),  # more than a word of bits
        "arrivals_s": draw(st.lists(seconds, min_size=ranks, max_size=ranks)),
        "root": draw(st.integers(0, ranks - 1)),
        "segment_time_s": draw(st.floats(0, 4)),
    }


@given(problem=problems())
@settings(max_examples=100, derandomize=True, database=None)
def test_equal_and_right_for_any_arrivals(problem):
    assert_equal_and_right(problem)


@pytest.mark.parametrize("seed", range(20))
def test_against_the_listing_in_plain_words(seed):
    """Groups and peers by a second program; quarters of seconds, so that its times are exact."""
    choose = random.Random(seed)
    ranks, segments = choose.randint(2, 9), choose.randint(1, 9)
    arrivals_s = [choose.randint(0, 40) / 4 for _ in range(ranks)]
    round_s = choose.choice([0.5, 1.0, 1.5])
    root = choose.randrange(ranks)
    schedule = made_by(
        "segment_tree", ranks, segments, arrivals_s, root=root, segment_time_s=round_s
    )
    assert sorted(listing(ranks, segments, arrivals_s, round_s, root)) == sorted(
        messages_of(schedule)
    )
