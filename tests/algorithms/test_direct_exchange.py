"""Direct exchange: shares by arrival and bandwidth, right schedules, near what no one can beat."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import _core
from tests.threads import on_threads

MESSAGE_BYTES = 4 << 20
PORT_BYTES_PER_S = 25e6
TRANSFER_S = MESSAGE_BYTES / PORT_BYTES_PER_S  # M * beta of the widest port

HALF = [1.0] * 7 + [0.5]
TENTH = [1.0] * 7 + [0.1]
HALF_OF_ALL_AT_A_QUARTER = [1.0] * 4 + [0.25] * 4
LINEAR = [1 - 0.75 * rank / 7 for rank in range(8)]


def made(ports=None, arrivals=None, *, ranks=8, cuts=32):
    """Arrivals in units of a message's transfer through the widest port."""
    narrowest = min(ports or [1.0])
    return pat.schedule(
        "direct_exchange",
        ranks,
        cuts * ranks,
        arrivals_s=arrivals,
        segment_time_s=1 / narrowest / ranks,
        ports=ports,
    )


def shares(schedule):
    """How much of the data each rank owns: it alone adds it up."""
    owned = [
        {s for step in schedule.steps(rank) if step.verb == "recv_reduce" for s in [step.first]}
        for rank in range(schedule.ranks)
    ]
    return [len(segments) / schedule.segments for segments in owned]


def after(ports, arrivals, cuts=32):
    """From the last arrival to the last result, in units, with ports that messages share."""
    links = [pat.Link(20e-6, PORT_BYTES_PER_S * port) for port in ports]
    arrivals_s = [at * TRANSFER_S for at in arrivals]
    schedule = made(ports, arrivals, ranks=len(ports), cuts=cuts)
    network = pat.Network(links, shared_ports=True)
    result = pat.simulate(schedule, network, MESSAGE_BYTES, arrivals_s)
    return result.after_last_arrival_s / TRANSFER_S


@st.composite
def problems(draw):
    ranks = draw(st.integers(1, 9))
    by_rank = {"min_size": ranks, "max_size": ranks}
    return {
        "ranks": ranks,
        "segments": draw(st.sampled_from([1, 2, ranks, 3 * ranks + 1, 8 * ranks])),
        "arrivals_s": draw(
            st.none()
            | st.lists(st.floats(0, 1e12), **by_rank)
            | st.lists(st.floats(0, 3), **by_rank)
        ),
        "segment_time_s": draw(st.sampled_from([0.0, 1e-9, 0.1, 1.0])),
        "ports": draw(st.none() | st.lists(st.floats(1e-6, 1e6), **by_rank)),
    }


@settings(max_examples=400)
@given(problems())
def test_any_arrivals_and_ports_give_a_right_schedule(problem):
    pat.verify(pat.schedule("direct_exchange", **problem))


def test_alike_and_together_all_own_as_much():
    assert shares(made()) == [1 / 8] * 8
    assert shares(made([3.0] * 8)) == [1 / 8] * 8


def test_worked_by_hand():
    """P = 3, ports 1, 1, 2/3: the third's is in use all the time if it owns 1/5 of the data.

    T = 2 (P - 1) / sum of ports = 1.5; x = (T b - 1) / (P - 2) = 0.5, 0.5, 0.
    P = 4, ports 1, 1, 1, 0.6: T = 6 / 3.6 = 5/3; x = (T b - 1) / 2 = 1/3, 1/3, 1/3, 0.
    P = 4, ports 1, 1, 1, 0.8: T = 6 / 3.8; x = 0.289, 0.289, 0.289, 0.132.
    """
    assert shares(made([1, 1, 2 / 3], ranks=3, cuts=100)) == pytest.approx([0.5, 0.5, 0], abs=0.01)
    expected = [1 / 3, 1 / 3, 1 / 3, 0]
    assert shares(made([1, 1, 1, 0.6], ranks=4, cuts=100)) == pytest.approx(expected, abs=0.01)
    expected = [11 / 38, 11 / 38, 11 / 38, 5 / 38]
    assert shares(made([1, 1, 1, 0.8], ranks=4, cuts=100)) == pytest.approx(expected, abs=0.01)


def test_who_comes_last_owns_nothing_and_who_comes_a_little_later_less():
    owned = shares(made(arrivals=[0.0] * 7 + [2.0]))
    assert owned[7] == 0
    assert sum(owned) == 1
    owned = shares(made(arrivals=[0.0] * 7 + [0.3]))
    assert 0 < owned[7] < owned[0]


def test_three_late_ranks_worked_by_hand():
    """The last three own y each, the others z.

    From their arrival on they send 1 - y of values and 7 y of sums, and the others get 3 z of
    values and 1 - z of sums: 1 + 6 y = 1 + 2 z = T, 3 y + 5 z = 1: T = 4/3.
    """
    owned = shares(made(arrivals=[0.0] * 5 + [2.0] * 3))
    assert owned == pytest.approx([1 / 6] * 5 + [1 / 18] * 3, abs=0.005)
    assert after([1.0] * 8, [0.0] * 5 + [2.0] * 3) == pytest.approx(4 / 3, rel=0.06)


@pytest.mark.parametrize(
    ("ports", "limit"), [(HALF, 2), (TENTH, 10), (HALF_OF_ALL_AT_A_QUARTER, 4), (LINEAR, 4)]
)
def test_unequal_ports_are_near_their_limit(ports, limit):
    """T >= max(1 / narrowest, 2 (P - 1) / sum): within a tenth, where rings take 3.5 to 17.5."""
    assert limit <= after(ports, [0.0] * 8) <= 1.1 * limit
    ring_s = pat.simulate(
        pat.schedule("ring", 8, 8),
        pat.Network([pat.Link(20e-6, PORT_BYTES_PER_S * port) for port in ports]),
        MESSAGE_BYTES,
    ).finish_s[0]
    assert ring_s >= 1.7 * limit * TRANSFER_S


def test_a_narrow_port_and_another_rank_late():
    assert after(HALF, [0.0] * 5 + [1.5, 0.0, 0.0]) <= 1.15 * 2


def test_nobody_beats_the_lower_bound():
    for ports in (HALF, LINEAR, [1.0] * 8):
        for arrivals in ([0.0] * 8, [0.1 * rank for rank in range(8)], [0.0] * 7 + [3.0]):
            network = pat.Network([pat.Link(20e-6, PORT_BYTES_PER_S * port) for port in ports])
            arrivals_s = [at * TRANSFER_S for at in arrivals]
            bound = pat.lower_bound(network, [MESSAGE_BYTES], [arrivals_s]).last_finish_s
            assert after(ports, arrivals) * TRANSFER_S + max(arrivals_s) >= bound


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_it_sums_right_whoever_comes_when(ranks):
    communicators = pat.Communicator.loopback(ranks, 20.0)

    def run(communicator):
        results = []
        for hints in (None, [0.1 * rank for rank in range(ranks)]):
            values = torch.arange(1000.0) * (communicator.rank + 1)
            communicator.all_reduce(values, algorithm="direct_exchange", arrivals_s=hints)
            results.append(values)
        return results

    expected = torch.arange(1000.0) * sum(range(1, ranks + 1))
    for results in on_threads(communicators, run):
        assert all(torch.equal(values, expected) for values in results)
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ([1.0] * 7, "one port per rank .8., got 7"),
        ([1.0] * 7 + [0.0], "got 0.0 for rank 7"),
        ([1.0] * 7 + [float("nan")], "got nan for rank 7"),
        ([float("inf")] * 8, "got inf for rank 0"),
    ],
)
def test_ports_that_make_no_sense(ports, message):
    with pytest.raises(pat.ScheduleError, match=message):
        pat.schedule("direct_exchange", 8, ports=ports)


def test_where_processors_move_messages_shares_that_fit_the_cache_are_not_cut():
    def segments(message_bytes, **link):
        link = pat.Link(20e-6, 5e9, **link)
        own = _core.find_algorithm("direct_exchange", "all_reduce")
        return own.segments(4, message_bytes, message_bytes // 4, link)

    assert segments(4 << 20) > 8
    assert segments(4 << 20, processors=2) == 4
    assert segments(64 << 20, processors=2) == 4 * 32  # of 512 KiB
