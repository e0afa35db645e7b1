"""The public functions: defaults, values, and what they say about bad input."""

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step


def test_segments_default_to_ranks_as_published():
    schedule = pat.schedule("slt", 6)
    assert (schedule.ranks, schedule.segments, schedule.arrivals_s) == (6, 6, [])
    assert (schedule.algorithm, schedule.collective, schedule.root) == ("slt", "all_reduce", 0)


def test_algorithms_name_their_source():
    known = pat.algorithms()
    assert {"ring", "slt", "prr"} <= set(known)
    assert all(len(source) > 20 for source in known.values())


def test_steps_are_values():
    step = Step("recv_reduce", 1, 4, 5, round=2)
    assert step == Step("recv_reduce", 1, 4, 5, 2) != Step("recv", 1, 4, 5, 2)
    assert len({step, Step("recv_reduce", 1, 4, 5, 2)}) == 1
    assert eval(repr(step)) == step
    assert str(step) == "recv_reduce <- 1 segment 4 round 2"
    with pytest.raises(AttributeError):
        step.peer = 3


def test_a_listing_has_one_line_per_step():
    assert pat.schedule("slt", 2, 1).listing().splitlines() == [
        "slt all_reduce, ranks 2, segments 1",
        "rank 0",
        "  0: send -> 1 segment 0",
        "  1: recv <- 1 segment 0",
        "rank 1",
        "  0: recv_reduce <- 0 segment 0",
        "  1: send -> 0 segment 0",
    ]


def test_a_schedule_can_be_rebuilt_from_its_steps():
    schedule = pat.schedule("ring", 3, 5)
    steps = [schedule.steps(rank) for rank in range(3)]
    rebuilt = Schedule.from_steps(steps, 5, algorithm="ring")
    assert rebuilt.listing() == schedule.listing()
    pat.verify(rebuilt)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            {"name": "rnig"},
            "unknown algorithm 'rnig' for all_reduce; known: ring, slt, slt_dynamic, prr",
        ),
        ({"collective": "gather"}, "collective 'gather'; known collectives: all_gather, all_red"),
        ({"ranks": 0}, "at least 1 rank, got ranks = 0"),
        ({"ranks": -2}, "at least 1 rank, got ranks = -2"),
        ({"segments": 0}, "at least 1 segment, got segments = 0"),
        ({"root": 3}, "root in 0..2, got root = 3"),
        ({"root": -1}, "root in 0..2, got root = -1"),
        ({"arrivals_s": []}, "expected one arrival per rank, got none"),
        ({"arrivals_s": [0, 1]}, r"one arrival per rank \(3\), got 2"),
        ({"arrivals_s": [0, float("nan"), 0]}, "got nan s for rank 1"),
        ({"arrivals_s": [0, 0, float("inf")]}, "got inf s for rank 2"),
        ({"arrivals_s": [-0.5, 0, 0]}, "got -0.5 s for rank 0"),
        ({"segment_time_s": -1.0}, "segment_time_s >= 0, got -1"),
        ({"segment_time_s": float("nan")}, "segment_time_s >= 0, got nan"),
    ],
)
def test_bad_values_are_named(request_, said):
    with pytest.raises(pat.ScheduleError, match=said):
        pat.schedule(**{"name": "ring", "ranks": 3} | request_)


@pytest.mark.parametrize(
    "request_",
    [
        {"ranks": 3.0},
        {"ranks": "3"},
        {"segments": 2.5},
        {"root": None},
        {"arrivals_s": 1.0},
        {"arrivals_s": ["0", "1", "2"]},
        {"arrivals_s": [0, None, 2]},
        {"segment_time_s": "fast"},
    ],
)
def test_wrong_types_are_type_errors(request_):
    with pytest.raises(TypeError):
        pat.schedule(**{"name": "ring", "ranks": 3} | request_)


def test_unknown_verbs_and_ranks_are_named():
    with pytest.raises(pat.ScheduleError, match="verb 'put'; known: send, recv, recv_reduce"):
        Step("put", 0, 0, 1)
    with pytest.raises(pat.ScheduleError, match=r"rank in 0\.\.2, got rank = 3"):
        pat.schedule("ring", 3).steps(3)


def test_a_schedule_needs_a_rank_and_a_segment():
    with pytest.raises(pat.ScheduleError, match="at least 1 rank"):
        Schedule.from_steps([], 1)
    with pytest.raises(pat.ScheduleError, match="at least 1 segment"):
        Schedule.from_steps([[]], 0)


def test_errors_are_the_builtin_ones_users_already_catch():
    assert issubclass(pat.ScheduleError, ValueError)
    assert issubclass(pat.TransportTimeout, TimeoutError)
    for error in (pat.TransportTimeout, pat.PeerLostError, pat.MismatchError):
        assert issubclass(error, pat.TransportError)
