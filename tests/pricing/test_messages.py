"""The messages of a simulated schedule tell the same story as its finish times."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Step
from patallreduce.pricing.bucket import Bucket, make_schedule
from patallreduce.pricing.messages import simulated_messages

LINK = pat.Link(latency_s=40e-6, bytes_per_s=25e6, reduce_bytes_per_s=5e9)
# Nothing is rounded on this one: a segment takes whole seconds, a latency half of one.
EXACT = pat.Link(latency_s=0.5, bytes_per_s=1024, reduce_bytes_per_s=1 << 40, port_share=0.5)


def simulated(name, ranks, segments, arrivals_s, link=LINK, segment_bytes=10_000):
    schedule = pat.schedule(name, ranks, segments, arrivals_s, segment_time_s=0.01)
    message_bytes = segments * segment_bytes
    result = pat.simulate(schedule, link, message_bytes, arrivals_s)
    return schedule, simulated_messages(schedule, link, message_bytes, arrivals_s), result


def test_two_ranks_and_one_segment_by_hand():
    """Rank 1 comes at 10 and adds what is there; its result takes 1/4 + 1 s of the ports."""
    schedule = pat.schedule("slt", 2, 1, [0, 10])
    early, late = simulated_messages(schedule, EXACT, 1024, [0, 10])
    assert (early.sender, early.receiver, early.sums) == (0, 1, True)
    assert (early.begin_s, early.end_s) == (0, 1.25)
    assert (late.sender, late.receiver, late.sums) == (1, 0, False)
    assert (late.begin_s, late.end_s) == (10 + 2**-30, 11.25 + 2**-30)


arrivals = st.lists(st.floats(0, 0.1), min_size=2, max_size=6)
names = st.sampled_from(sorted(pat.algorithms()))


@given(names, arrivals, st.integers(1, 3))
def test_ports_carry_one_message_at_a_time(name, arrivals_s, cuts):
    ranks = len(arrivals_s)
    schedule, messages, _ = simulated(name, ranks, cuts * ranks, arrivals_s)
    sends = [s for rank in range(ranks) for s in schedule.steps(rank) if s.verb == "send"]
    assert len(messages) == len(sends)
    for end in ("sender", "receiver"):
        for rank in range(ranks):
            of_port = [m for m in messages if getattr(m, end) == rank]
            for earlier, later in itertools.pairwise(of_port):
                assert earlier.end_s <= later.begin_s
    for message in messages:
        size_bytes = 10_000 * (message.last - message.first)
        busy_s = LINK.port_share * LINK.latency_s + LINK.transfer_s(size_bytes)
        assert message.end_s - message.begin_s == pytest.approx(busy_s, rel=1e-9)


@given(st.sampled_from(["ring", "rabenseifner"]), arrivals, st.integers(1, 3))
def test_the_last_message_brings_the_result(name, arrivals_s, cuts):
    """But for rounding: the picture is of the run whose finish times are reported."""
    ranks = len(arrivals_s)
    _, messages, result = simulated(name, ranks, cuts * ranks, arrivals_s)
    for rank, finish_s in enumerate(result.finish_s):
        results_s = [
            m.end_s + (1 - LINK.port_share) * LINK.latency_s
            for m in messages
            if m.receiver == rank and not m.sums
        ]
        if results_s and max(results_s) > arrivals_s[rank]:
            assert finish_s >= max(results_s) - 1e-12
            if name == "ring":
                assert finish_s == pytest.approx(max(results_s), abs=1e-12)


@pytest.mark.parametrize("segments", [1, 4, 32])
def test_a_chain_ends_with_its_first_rank(segments):
    arrivals_s = [0, 0.001, 0.02, 0.5]
    _, messages, result = simulated("slt", 4, segments, arrivals_s)
    for rank in (0, 1, 2):
        last = max(m.end_s for m in messages if m.receiver == rank and not m.sums)
        assert result.finish_s[rank] == last + (1 - LINK.port_share) * LINK.latency_s


def test_the_receives_tell_sums_from_results():
    """Two messages from one rank to another, the second a result."""
    steps = [
        [Step("send", 1, 0, 1), Step("send", 1, 1, 2), Step("recv", 1, 0, 1)],
        [Step("recv_reduce", 0, 0, 1), Step("recv", 0, 1, 2), Step("send", 0, 0, 1)],
    ]
    messages = simulated_messages(pat.Schedule.from_steps(steps, 2), EXACT, 2048)
    assert [(m.sender, m.first, m.sums) for m in messages] == [
        (0, 0, True),
        (0, 1, False),
        (1, 0, False),
    ]


@given(names, arrivals, st.booleans())
def test_a_networks_messages_keep_to_its_ports(name, arrivals_s, shared_ports):
    """As many messages as it has, each between its begin and its landing, none before its time."""
    ranks = len(arrivals_s)
    bucket = Bucket(ranks, 10_000 * ranks, LINK, ranks_per_node=2)
    schedule = make_schedule(name, bucket, arrivals_s)
    network = replace(bucket.network(name), shared_ports=shared_ports)
    messages = simulated_messages(schedule, network, bucket.message_bytes, arrivals_s)
    result = pat.simulate(schedule, network, bucket.message_bytes, arrivals_s, account=True)
    sends = [s for rank in range(ranks) for s in schedule.steps(rank) if s.verb == "send"]
    assert len(messages) == len(sends)
    for rank in range(ranks):
        of_port = [m for m in messages if m.sender == rank]
        busy_s = sum(m.end_s - m.begin_s for m in of_port)
        # Where several leave at once each takes longer.
        assert busy_s >= result.sends_s[rank] * (1 - 1e-9)
        if not shared_ports:
            assert busy_s == pytest.approx(result.sends_s[rank])


def test_empty_segments_make_no_message():
    schedule = pat.schedule("slt", 2, 8, [0, 1])
    assert len(simulated_messages(schedule, LINK, 2, [0, 1])) == 2 * 2


def test_bad_input():
    schedule = pat.schedule("ring", 2)
    with pytest.raises(ValueError, match="message_bytes: expected >= 0, got -1"):
        simulated_messages(schedule, LINK, -1)
    with pytest.raises(pat.ScheduleError, match="one arrival per rank"):
        simulated_messages(schedule, LINK, 1, [0, 0, 0])
