import itertools

import pytest

import patallreduce as pat


def messages(schedule, rank):
    """Return (sent, taken)."""
    verbs = [step.verb for step in schedule.steps(rank)]
    return verbs.count("send"), len(verbs) - verbs.count("send")


def moves(schedule, rank):
    return [(step.verb, step.peer, step.first) for step in schedule.steps(rank)]


def test_equal_arrivals_make_it_the_ring():
    for arrivals_s in (None, [7.0] * 5):
        for tau_s in (0.0, 1.0):
            prr = pat.schedule("prr", 5, 10, arrivals_s, segment_time_s=tau_s)
            assert prr.sum_orders() == pat.schedule("ring", 5, 10).sum_orders()
            assert [messages(prr, rank) for rank in range(5)] == [(16, 16)] * 5


@pytest.mark.parametrize("ranks", range(2, 11))
def test_every_pattern_of_pre_steps_is_right(ranks):
    """From id to id k drops by one or stays, and k of the last two is 0: all 2^(P-2) patterns."""
    seen = set()
    for drops in itertools.product([0, 1], repeat=ranks - 2):
        k = [sum(drops[id_:]) for id_ in range(ranks)]
        # Fig. 7 compares a[P-1] - a[id+1] with k[id]: being early by exactly that is enough.
        ahead_s = [k[0], *k[:-1]]
        arrivals_s = [float(ranks - ahead) for ahead in ahead_s]
        schedule = pat.schedule("prr", ranks, arrivals_s=arrivals_s, segment_time_s=1)

        pat.verify(schedule)

        first = [schedule.steps(id_) for id_ in range(ranks)]
        starts = {id_: steps[0].first for id_, steps in enumerate(first) if steps[0].verb == "send"}
        assert all(start == id_ + k[id_] for id_, start in starts.items())
        seen.add(schedule.listing())
    assert len(seen) == 2 ** (ranks - 2)  # each pattern really is another schedule


def test_repeated_drops_of_k_need_the_first_correction():
    """Rank 3 is very late: parts 0..2 start at id 0, part 3 at id 3, so two ids start nothing."""
    schedule = pat.schedule("prr", 4, arrivals_s=[0.0, 0.0, 0.0, 9.0], segment_time_s=1)
    summed = [(((0, 1), 2), 3)] * 3 + [(((3, 0), 1), 2)]
    assert schedule.sum_orders() == [summed] * 4


def test_messages_of_one_very_late_rank():
    """The paper says P-1 each way for the late rank, 2P-1 for the others; these are the facts."""
    for ranks in (4, 5, 8):
        late = [0.0] * (ranks - 1) + [1e6]
        schedule = pat.schedule("prr", ranks, arrivals_s=late, segment_time_s=1)
        counts = [messages(schedule, rank) for rank in range(ranks)]
        assert counts[0] == (2 * ranks, ranks + 1)
        assert all(count == (2 * ranks, 2 * ranks) for count in counts[1:-3])
        assert counts[-3] == (2 * ranks - 1, 2 * ranks)
        assert counts[-2] == (ranks, 2 * ranks - 1)
        assert counts[-1] == (ranks + 1, ranks)
        assert sum(sent for sent, _ in counts) == ranks * (2 * ranks - 2)


def test_figure_8_late_rank_leaves_one_step_earlier(exit_times):
    """Rank 0 of 4 comes 2 tau late.

    Fig. 8 prints 8 tau for the ring and 7 for PRR. 7 is when the late rank leaves; the others
    leave at 8, because the part that starts at the late rank still has 2P-2 hops to go.
    """
    late = [2.0, 0.0, 0.0, 0.0]
    assert exit_times(pat.schedule("ring", 4), late) == [8.0] * 4
    prr = pat.schedule("prr", 4, arrivals_s=late, segment_time_s=1)
    assert exit_times(prr, late) == [7.0, 8.0, 8.0, 8.0]


def test_tau_is_of_one_part_whatever_the_segments():
    """Finer segments pipeline the same parts: the order of sums stays."""
    arrivals_s = [0.0, 0.3, 1.1, 2.0]
    coarse = pat.schedule("prr", 4, 4, arrivals_s, segment_time_s=0.8).sum_orders()
    fine = pat.schedule("prr", 4, 12, arrivals_s, segment_time_s=0.8).sum_orders()
    assert [row[::3] for row in fine] == coarse


def test_without_tau_every_early_rank_makes_one_more_pre_step():
    schedule = pat.schedule("prr", 4, arrivals_s=[0.0, 0.0, 0.0, 1e-9])
    late = pat.schedule("prr", 4, arrivals_s=[0.0, 0.0, 0.0, 1e9], segment_time_s=1)
    assert [moves(schedule, r) for r in range(4)] == [moves(late, r) for r in range(4)]
