"""Prices against closed forms, bounds that hold for every schedule, and bad input."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Step

LINK = pat.Link(latency_s=20e-6, bytes_per_s=25e6, reduce_bytes_per_s=5e9, port_share=1.0)
OVERLAPPING = pat.Link(latency_s=20e-6, bytes_per_s=25e6, reduce_bytes_per_s=5e9)
MESSAGE_BYTES = 4 << 20


def hop_s(link, message_bytes):
    return link.latency_s + message_bytes / link.bytes_per_s


def exactly(value):
    return pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("link", [LINK, OVERLAPPING])
def test_a_balanced_ring_costs_its_rounds(ranks, link):
    message_bytes = ranks * 100_000
    result = pat.simulate(pat.schedule("ring", ranks), link, message_bytes)
    expected_s = 2 * (ranks - 1) * hop_s(link, 100_000)
    expected_s += (ranks - 1) * 100_000 / link.reduce_bytes_per_s
    assert result.finish_s == exactly((expected_s,) * ranks)
    assert result.average_elapsed_s == exactly(expected_s)
    assert result.after_last_arrival_s == exactly(expected_s)


def test_two_ranks_and_one_segment():
    """The early rank's data waits on the late one, which only has to add it."""
    result = pat.simulate(pat.schedule("slt", 2, 1), LINK, 1_000_000, [0, 10])
    sum_s = 1_000_000 / LINK.reduce_bytes_per_s
    late_s = 10 + sum_s
    assert result.finish_s == exactly((late_s + hop_s(LINK, 1_000_000), late_s))


def test_a_chain_with_a_very_late_rank():
    """slt.cpp: S + P - 2 message times are left once the last rank has come."""
    ranks, segments = 8, 32
    schedule = pat.schedule("slt", ranks, segments, [0] * 7 + [5])
    result = pat.simulate(schedule, LINK, MESSAGE_BYTES, [0] * 7 + [5])
    message_s = hop_s(LINK, MESSAGE_BYTES / segments)
    first_sum_s = MESSAGE_BYTES / segments / LINK.reduce_bytes_per_s
    assert result.after_last_arrival_s == exactly((segments + ranks - 2) * message_s + first_sum_s)
    assert result.finish_s[7] == exactly(5 + MESSAGE_BYTES / LINK.reduce_bytes_per_s)


def test_the_ports_are_free_during_the_rest_of_the_latency():
    schedule = pat.schedule("slt", 2, 100, [0, 1])
    result = pat.simulate(schedule, OVERLAPPING, 100_000, [0, 1])
    busy_s = 0.25 * OVERLAPPING.latency_s + 1000 / OVERLAPPING.bytes_per_s
    expected_s = 100 * busy_s + 0.75 * OVERLAPPING.latency_s
    expected_s += 1000 / OVERLAPPING.reduce_bytes_per_s
    assert result.after_last_arrival_s == exactly(expected_s)


def test_one_receiver_takes_one_message_at_a_time():
    """All ranks send to rank 0, which then tells them one after the other."""
    ranks, message_bytes = 5, 100_000
    others = range(1, ranks)
    steps = [
        [Step("recv_reduce", peer, 0, 1) for peer in others]
        + [Step("send", peer, 0, 1) for peer in others],
        *([Step("send", 0, 0, 1), Step("recv", 0, 0, 1)] for _ in others),
    ]
    result = pat.simulate(pat.Schedule.from_steps(steps, 1), LINK, message_bytes)
    sum_s = message_bytes / LINK.reduce_bytes_per_s
    root_s = 4 * hop_s(LINK, message_bytes) + sum_s
    told_s = tuple(root_s + n * hop_s(LINK, message_bytes) for n in others)
    assert result.finish_s == exactly((root_s, *told_s))


def test_one_rank_has_its_result_when_it_arrives():
    result = pat.simulate(pat.schedule("ring", 1), LINK, MESSAGE_BYTES, [3])
    assert (result.finish_s, result.average_elapsed_s, result.after_last_arrival_s) == ((3,), 0, 0)


def test_arrivals_of_the_schedule_are_not_those_of_the_run():
    """A wrong prediction: the chain ends with rank 0, but rank 1 comes last."""
    schedule = pat.schedule("slt", 3, 8, [1, 0, 0])
    right = pat.simulate(schedule, LINK, MESSAGE_BYTES, [1, 0, 0])
    wrong = pat.simulate(schedule, LINK, MESSAGE_BYTES, [0, 1, 0])
    assert wrong.after_last_arrival_s > right.after_last_arrival_s
    assert pat.simulate(schedule, LINK, MESSAGE_BYTES) == pat.simulate(
        schedule, LINK, MESSAGE_BYTES, [0, 0, 0]
    )


def test_a_message_shorter_than_its_segments_leaves_empty_ones_out():
    sparse = pat.simulate(pat.schedule("slt", 2, 8, [0, 1]), LINK, 2, [0, 1])
    dense = pat.simulate(pat.schedule("slt", 2, 2, [0, 1]), LINK, 2, [0, 1])
    assert sparse.after_last_arrival_s == exactly(dense.after_last_arrival_s)


def test_an_empty_message_costs_latencies():
    result = pat.simulate(pat.schedule("ring", 4, 4), LINK, 0)
    assert result.after_last_arrival_s == exactly(6 * LINK.latency_s)


def test_transfers_by_size():
    link = pat.Link(10e-6, 1e6, transfers_s=((1000, 0.01), (2000, 0.012)))
    assert [link.transfer_s(size) for size in (0, 500, 1000, 1500, 2000, 1_002_000)] == exactly(
        [0, 0.005, 0.01, 0.011, 0.012, 1.012]
    )
    schedule = pat.schedule("slt", 2, 1, [0, 1])
    result = pat.simulate(schedule, link, 1500, [0, 1])
    assert result.finish_s[0] == exactly(1 + 1500 / 5e9 + 10e-6 + 0.011)


arrivals = st.lists(st.floats(0, 1), min_size=2, max_size=6)
names = st.sampled_from(sorted(pat.algorithms()))


@given(names, arrivals, st.data())
def test_no_schedule_beats_the_others_data(name, arrivals_s, data):
    """What another rank brings has to come through this rank's port: one message."""
    ranks = len(arrivals_s)
    predicted_s = data.draw(st.permutations(arrivals_s))
    segments = data.draw(st.sampled_from([ranks, 2 * ranks]))
    schedule = pat.schedule(name, ranks, segments, predicted_s, segment_time_s=0.05)
    message_bytes = segments * 10_000
    result = pat.simulate(schedule, LINK, message_bytes, arrivals_s)
    for rank, finish_s in enumerate(result.finish_s):
        last_other_s = max(arrivals_s[:rank] + arrivals_s[rank + 1 :])
        assert finish_s >= arrivals_s[rank]
        assert finish_s >= (last_other_s + hop_s(LINK, message_bytes)) * (1 - 1e-12)
    elapsed_s = [f - a for f, a in zip(result.finish_s, arrivals_s, strict=True)]
    assert result.average_elapsed_s == pytest.approx(sum(elapsed_s) / ranks)
    assert result.after_last_arrival_s == pytest.approx(max(result.finish_s) - max(arrivals_s))


@given(arrivals, st.data())
def test_in_a_ring_nobody_profits_from_a_later_arrival(arrivals_s, data):
    """Each port serves one neighbour in a fixed order, so a delay can only spread.

    Not true of every schedule: first come, first served has anomalies.
    """
    ranks = len(arrivals_s)
    delays_s = data.draw(st.lists(st.floats(0, 1), min_size=ranks, max_size=ranks))
    later_s = [arrival + delay for arrival, delay in zip(arrivals_s, delays_s, strict=True)]
    schedule = pat.schedule("ring", ranks)
    before = pat.simulate(schedule, LINK, ranks * 10_000, arrivals_s)
    after = pat.simulate(schedule, LINK, ranks * 10_000, later_s)
    assert all(b <= a * (1 + 1e-12) for b, a in zip(before.finish_s, after.finish_s, strict=True))


@given(names, arrivals, st.integers(-10, 10))
def test_the_clock_s_zero_does_not_matter(name, arrivals_s, shift_s):
    # On a grid that sums of the shift cannot round: ties stay ties.
    grid = 2.0**-20
    arrivals_s = [round(arrival_s / grid) * grid for arrival_s in arrivals_s]
    schedule = pat.schedule(name, len(arrivals_s), arrivals_s=arrivals_s)
    here = pat.simulate(schedule, LINK, MESSAGE_BYTES, arrivals_s)
    there = pat.simulate(schedule, LINK, MESSAGE_BYTES, [a + shift_s for a in arrivals_s])
    assert here.average_elapsed_s == pytest.approx(there.average_elapsed_s, abs=1e-6)
    assert here == pat.simulate(schedule, LINK, MESSAGE_BYTES, arrivals_s)


def test_a_reduce_frees_a_rank_when_its_contribution_is_sent():
    steps = [[Step("recv_reduce", 1, 0, 1)], [Step("send", 0, 0, 1)]]
    schedule = pat.Schedule.from_steps(steps, 1, collective="reduce")
    result = pat.simulate(schedule, LINK, 100_000, [0, 2])
    sent_s = 2 + hop_s(LINK, 100_000)
    assert result.finish_s == exactly((sent_s + 100_000 / LINK.reduce_bytes_per_s, sent_s))


def test_deadlock_is_named():
    steps = [
        [Step("recv", 1, 0, 1), Step("send", 1, 0, 1)],
        [Step("recv", 0, 0, 1), Step("send", 0, 0, 1)],
    ]
    with pytest.raises(pat.ScheduleError, match="deadlock.*rank"):
        pat.simulate(pat.Schedule.from_steps(steps, 1), LINK, 100)


@pytest.mark.parametrize("arrivals_s", [[0], [0, 0, 0], [0, math.nan], [0, math.inf]])
def test_arrivals_have_to_be_one_finite_number_per_rank(arrivals_s):
    with pytest.raises(pat.ScheduleError, match="arrival"):
        pat.simulate(pat.schedule("ring", 2), LINK, 100, arrivals_s)


def test_a_message_has_no_negative_size():
    with pytest.raises(ValueError, match="message_bytes.*-1"):
        pat.simulate(pat.schedule("ring", 2), LINK, -1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"latency_s": 0}, "latency_s"),
        ({"bytes_per_s": math.nan}, "bytes_per_s"),
        ({"port_share": 1.5}, "port_share"),
        ({"change_share": -0.1}, "change_share"),
        ({"transfers_s": ((10, 1.0), (10, 2.0))}, "ascending"),
        ({"transfers_s": ((10, 0.0),)}, "transfers_s"),
    ],
)
def test_a_link_has_to_make_sense(fields, message):
    with pytest.raises(ValueError, match=message):
        pat.Link(**{"latency_s": 1e-6, "bytes_per_s": 1e9, **fields})
