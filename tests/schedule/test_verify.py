"""One broken schedule per thing the verifier proves, and what it says about it."""

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step


def send(peer, first=0, last=1):
    return Step("send", peer, first, last)


def recv(peer, first=0, last=1):
    return Step("recv", peer, first, last)


def recv_reduce(peer, first=0, last=1):
    return Step("recv_reduce", peer, first, last)


def exchange(segments=1):
    return [[send(1 - rank, 0, segments), recv_reduce(1 - rank, 0, segments)] for rank in (0, 1)]


def refusal(steps, segments=1, **options):
    with pytest.raises(pat.ScheduleError) as caught:
        pat.verify(Schedule.from_steps(steps, segments, **options))
    return str(caught.value)


def test_accepts_an_exchange_of_several_segments_at_once():
    pat.verify(Schedule.from_steps(exchange(3), 3))


def test_names_a_peer_out_of_range():
    assert "rank 0 step 0 (send -> 2 segment 0): peer" in refusal([[send(2)], []])
    assert "rank 1 step 0 (recv <- -1 segment 0): peer" in refusal([[], [recv(-1)]])


def test_names_a_message_to_oneself():
    assert "rank 1 step 0 (send -> 1 segment 0): a rank sends itself" in refusal([[], [send(1)]])


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3), (1, 1), (2, 0)])
def test_names_segments_out_of_range(first, last):
    said = refusal([[send(1, first, last)], [recv(0, first, last)]], 2)
    assert said.startswith(f"rank 0 step 0 (send -> 1 segments [{first}, {last})")
    assert "0 <= first < last <= segments = 2" in said


def test_names_a_message_nobody_takes():
    said = refusal([[send(1), send(1)], [recv_reduce(0)]])
    assert said.startswith("rank 0 step 1 (send -> 1 segment 0): rank 1 never takes this message")


def test_names_a_message_nobody_sends():
    said = refusal([[send(1)], [recv_reduce(0), recv(0)]])
    assert said.startswith("rank 1 step 1 (recv <- 0 segment 0): takes message 1 of rank 0")


def test_names_both_ends_that_disagree_about_segments():
    said = refusal([[send(1, 0, 1), send(1, 1, 2)], [recv(0, 1, 2), recv(0, 0, 1)]], 2)
    assert "rank 1 step 0 (recv <- 0 segment 1)" in said
    assert "rank 0 step 0 (send -> 1 segment 0)" in said


def test_names_the_circle_of_a_deadlock():
    said = refusal([[recv_reduce(1), send(1)], [recv_reduce(0), send(0)]])
    assert said.startswith("deadlock: rank ")
    for place in ("0 step 0 (recv_reduce <- 1", "0 step 1 (send", "1 step 0 (", "1 step 1 ("):
        assert f"rank {place}" in said


def test_a_message_waits_for_the_one_before_it_to_the_same_rank():
    """Segment 2 could overtake segment 0 on the way from 1 to 0 only where messages have tags."""
    steps = [
        [recv(1, 0, 1), recv(1, 2, 3), send(2, 1, 3)],
        [recv(2, 0, 2), send(0, 0, 1), send(0, 2, 3)],
        [recv(0, 1, 3), send(1, 0, 2)],
    ]
    assert refusal(steps, 3).startswith("deadlock: ")


def test_names_who_is_missing_and_where():
    said = refusal([[send(1)], [recv_reduce(0)]])
    assert said == (
        "rank 0 (no step writes segment 0): in segment 0 the contribution of rank 1 is missing"
    )
    said = refusal([[send(1), recv_reduce(1)], [send(0), recv(0)]])
    assert said == (
        "rank 1 step 1 (recv <- 0 segment 0): in segment 0 the contribution of rank 1 is missing"
    )


def test_names_who_comes_twice():
    steps = [[send(1), send(1), recv(1)], [recv_reduce(0), recv_reduce(0), send(0)]]
    assert "rank 0 step 2 (recv <- 1 segment 0): in segment 0 the contribution of rank 0 comes" in (
        refusal(steps)
    )


def test_sums_doubled_beyond_counting_are_found_at_once():
    """40 exchanges would hold each contribution 2^40 times."""
    said = refusal([exchange()[rank] * 40 for rank in (0, 1)])
    assert "comes more than once" in said


def test_reduce_asks_the_root_alone():
    steps = [[send(1)], [recv_reduce(0)]]
    pat.verify(Schedule.from_steps(steps, 1, collective="reduce", root=1))
    assert "rank 0" in refusal(steps, collective="reduce", root=0)
    assert "known: all_reduce, reduce" in refusal(steps, collective="gather")


def test_a_quarter_of_a_million_steps_take_no_time():
    schedule = pat.schedule("prr", 16, 4096, [0.0] * 15 + [1.0], segment_time_s=0.1)
    pat.verify(schedule)  # in 0.07 s; quadratic work would take minutes, which no test is given
