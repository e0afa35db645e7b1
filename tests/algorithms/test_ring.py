import pytest

import patallreduce as pat


def test_arrivals_change_nothing():
    late = pat.schedule("ring", 4, 8, [9.0, 0.0, 3.0, 0.0])
    on_time = pat.schedule("ring", 4, 8)
    assert [late.steps(rank) for rank in range(4)] == [on_time.steps(rank) for rank in range(4)]


@pytest.mark.parametrize(("ranks", "segments"), [(3, 3), (5, 20), (4, 7), (7, 3)])
def test_both_ends_of_a_message_are_in_one_round(ranks, segments):
    schedule = pat.schedule("ring", ranks, segments)
    for rank in range(ranks):
        sent = [s.round for s in schedule.steps(rank) if s.verb == "send"]
        taken = [s.round for s in schedule.steps((rank + 1) % ranks) if s.verb != "send"]
        assert sent == taken
        assert set(sent) <= set(range(2 * (ranks - 1)))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_takes_two_rounds_per_other_rank(exit_times, ranks):
    assert exit_times(pat.schedule("ring", ranks), [0.0] * ranks) == [2.0 * (ranks - 1)] * ranks


def test_finer_segments_do_not_lengthen_the_ring(exit_times):
    """4 segments per part: no message waits for the rest of its part."""
    assert exit_times(pat.schedule("ring", 4, 16), [0.0] * 4) == [4 * 6.0] * 4
