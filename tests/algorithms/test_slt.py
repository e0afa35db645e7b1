import pytest

import patallreduce as pat
from patallreduce import Step


def sent(schedule, rank):
    return [step for step in schedule.steps(rank) if step.verb == "send"]


def test_chain_follows_arrivals_and_ties_follow_ranks():
    schedule = pat.schedule("slt", 5, 1, [1.0, 0.0, 1.0, 3.0, 0.0])  # 1 -> 4 -> 0 -> 2 -> 3
    assert [step.peer for step in sent(schedule, 1)] == [4, 4]  # its sum, then the result
    assert schedule.steps(4) == [
        Step("recv_reduce", 1, 0, 1),
        Step("send", 0, 0, 1),
        Step("recv", 1, 0, 1),
        Step("send", 0, 0, 1),
    ]
    assert [step.peer for step in sent(schedule, 2)] == [3]  # nobody needs its result
    assert schedule.steps(3) == [Step("recv_reduce", 2, 0, 1), Step("send", 1, 0, 1)]


def test_many_ties_follow_ranks_too():
    """Small inputs come out in order from any sort; a hundred ranks need a stable one."""
    schedule = pat.schedule("slt", 100, 1, [float(rank % 2) for rank in range(100)])
    chain = [*range(0, 100, 2), *range(1, 100, 2)]
    assert [sent(schedule, rank)[0].peer for rank in chain] == [*chain[1:], chain[0]]


def test_two_ranks_exchange_a_sum_for_a_result():
    schedule = pat.schedule("slt", 2, 1, [1.0, 0.0])
    assert schedule.steps(1) == [Step("send", 0, 0, 1), Step("recv", 0, 0, 1)]
    assert schedule.steps(0) == [Step("recv_reduce", 1, 0, 1), Step("send", 1, 0, 1)]


def test_early_ranks_hand_on_every_sum_before_any_result():
    """Messages of a pair keep their order: a result in between would wait for the last rank."""
    schedule = pat.schedule("slt", 4, 32, [0.0, 0.0, 0.0, 1.0])
    assert [step.first for step in sent(schedule, 0)] == [*range(32), *range(32)]


def test_sorting_saves_what_figure_6_says(exit_times):
    """Rank 0 of 4 comes 4 tau late.

    Fig. 6 prints 14 and 12 tau. Its own pseudo-code, with one message per port and tau, takes
    one less in both cases; the saving of 2 tau is the same.
    """
    late = [4.0, 0.0, 0.0, 0.0]
    unsorted = max(exit_times(pat.schedule("slt", 4), late))
    by_arrival = max(exit_times(pat.schedule("slt", 4, arrivals_s=late), late))
    assert (unsorted, by_arrival) == (13.0, 11.0)


@pytest.mark.parametrize("segments", [4, 16, 64])
def test_after_the_last_arrival_the_data_crosses_each_link_once(exit_times, segments):
    """S + P - 2 messages of 1/S of the data remain, plus one for the last sum to reach the rank."""
    late = [0.0, 0.0, 0.0, 1000.0]
    after = max(exit_times(pat.schedule("slt", 4, segments, late), late)) - 1000.0
    assert after == segments + 4 - 2 + 1  # the drawings let no rank receive before it arrives
