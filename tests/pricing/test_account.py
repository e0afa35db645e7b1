"""What a result waited for, and how busy ports and processors were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patallreduce as pat

LINK = pat.Link(20e-6, 25e6, 5e9)
LOGGP = pat.LogGP(10e-6, 3e-6, 5e-6, 4e-8)
NAMES = sorted(pat.algorithms())
arrivals = st.lists(st.floats(0, 0.02), min_size=2, max_size=7)


def exactly(value):
    return pytest.approx(value, rel=1e-9)


def test_the_critical_path_of_a_chain_with_a_late_rank():
    """The first sum, the sends to the first rank one behind the other, the last one's way on.

    0 -> 1 -> 2 and 2 -> 0 -> 1, of 3 segments; rank 2's port is the slowest, so that nothing else
    has to wait.
    """
    arrivals_s = [0, 0, 5]
    schedule = pat.schedule("slt", 3, 3, arrivals_s)
    network = pat.Network((LINK, LINK, pat.Link(20e-6, 10e6, 5e9)))
    result = pat.simulate(schedule, network, 3000, arrivals_s, account=True)
    path = result.critical_path
    assert path[0] == (2, -1, 5.0)
    assert [step.rank for step in path] == [2, 2, 2, 2, 2, 0, 0, 1]
    verbs = [schedule.steps(step.rank)[step.step].verb for step in path[1:]]
    assert verbs == ["recv_reduce", "send", "send", "send", "recv", "send", "recv"]
    assert path[-1].done_s == max(result.finish_s)


def test_ports_of_a_ring():
    """Each sends and receives 6 messages of 1000 bytes, and sums 3 of them."""
    result = pat.simulate(pat.schedule("ring", 4), LINK, 4000, account=True)
    port_s = 6 * (0.25 * 20e-6 + 1000 / 25e6)
    assert result.sends_s == exactly((port_s,) * 4)
    assert result.receives_s == exactly((port_s,) * 4)
    assert result.works_s == exactly((3 * 1000 / 5e9,) * 4)


@given(st.sampled_from(NAMES), arrivals, st.sampled_from([LINK, LOGGP]), st.integers(1, 20))
def test_every_path_leads_from_an_arrival_to_the_last_finish(name, arrivals_s, link, segments):
    ranks = len(arrivals_s)
    schedule = pat.schedule(name, ranks, segments, arrivals_s)
    result = pat.simulate(schedule, link, 1000 * segments, arrivals_s, account=True)
    path = result.critical_path
    assert path[0].step == -1
    assert path[0].done_s == exactly(arrivals_s[path[0].rank])  # the clock's zero is the first one
    assert path[-1].done_s == max(result.finish_s)
    assert result.finish_s[path[-1].rank] == path[-1].done_s
    times_s = [step.done_s for step in path]
    assert times_s == sorted(times_s)
    steps = [step for step in path if step.step >= 0]
    assert len(set(steps)) == len(steps) == len(path) - 1
    without = pat.simulate_algorithm(
        name,
        ranks,
        segments,
        link=link,
        message_bytes=1000 * segments,
        arrivals_s=arrivals_s,
        predicted_s=arrivals_s,
    )
    assert without.critical_path == ()
    assert without.finish_s == result.finish_s
    assert without.sends_s == exactly(result.sends_s)


@given(st.sampled_from(NAMES), arrivals, st.integers(1, 20))
def test_what_is_sent_is_received_and_no_port_works_overtime(name, arrivals_s, segments):
    schedule = pat.schedule(name, len(arrivals_s), segments, arrivals_s)
    result = pat.simulate(schedule, LOGGP, 1000 * segments, arrivals_s, account=True)
    assert sum(result.sends_s) == exactly(sum(result.receives_s))
    messages = sum(
        step.verb == "send" for rank in range(len(arrivals_s)) for step in schedule.steps(rank)
    )
    sums = sum(
        step.last - step.first
        for rank in range(len(arrivals_s))
        for step in schedule.steps(rank)
        if step.verb == "recv_reduce"
    )
    assert sum(result.works_s) == exactly(2 * messages * 3e-6 + sums * 1000 / 5e9)


@given(arrivals, st.floats(1, 10), st.sampled_from(["bytes_per_s", "reduce_bytes_per_s"]))
def test_in_a_ring_nobody_suffers_from_a_faster_link(arrivals_s, factor, field):
    """Each port serves one neighbour in a fixed order; not true where messages overtake."""
    ranks = len(arrivals_s)
    fields = {"bytes_per_s": 25e6, "reduce_bytes_per_s": 5e7}
    slow = pat.Link(20e-6, **fields)
    fast = pat.Link(20e-6, **{**fields, field: fields[field] * factor})
    schedule = pat.schedule("ring", ranks)
    before = pat.simulate(schedule, slow, ranks * 10_000, arrivals_s)
    after = pat.simulate(schedule, fast, ranks * 10_000, arrivals_s)
    assert all(a <= b * (1 + 1e-12) for a, b in zip(after.finish_s, before.finish_s, strict=True))
