"""Schedules made while they run, against the same ones made before: equal to the last bit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Step, _core
from patallreduce.pricing.networks import native

LINK = pat.Link(20e-6, 25e6, 5e9)
NAMES = sorted(pat.algorithms())
LINKS = {
    "overlapping": LINK,
    "to the letter": pat.Link(20e-6, 25e6, 5e9, port_share=1.0),
    "changes": pat.Link(20e-6, 25e6, 5e9, change_share=0.7),
    "bursts": pat.Link(20e-6, 25e6, 5e9, burst_bytes=3000),
    "processors": pat.Link(20e-6, 25e6, 1e8, processors=2),
    "slow sums": pat.Link(20e-6, 25e6, 2e7, transfers_s=((1000, 1e-4), (50_000, 1.5e-3))),
}


def generated(name, ranks, segments, link, message_bytes, arrivals_s, *, in_order, predicted_s=()):
    return _core.simulate_algorithm(
        name,
        ranks,
        segments,
        predicted_s,
        0,
        0.001,
        message_bytes,
        arrivals_s,
        native(link),
        False,
        in_order,
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("cuts", [0.5, 1, 3, 20])
def test_equal_arrivals(name, ranks, cuts):
    """Where times tie, too."""
    segments = max(int(ranks * cuts), 1)
    schedule = pat.schedule(name, ranks, segments, segment_time_s=0.001)
    for link in LINKS.values():
        for message_bytes in (100_000, 3, 0):
            stored = pat.simulate(schedule, link, message_bytes)
            for in_order in (False, True):
                found = generated(name, ranks, segments, link, message_bytes, [], in_order=in_order)
                assert tuple(found[0]) == stored.finish_s


@settings(max_examples=200)
@given(
    st.sampled_from(NAMES),
    st.lists(st.floats(0, 0.05), min_size=1, max_size=12),
    st.sampled_from(sorted(LINKS)),
    st.integers(1, 60),
    st.booleans(),
    st.data(),
)
def test_any_arrivals(name, arrivals_s, link, segments, in_order, data):
    ranks = len(arrivals_s)
    predicted_s = data.draw(st.permutations(arrivals_s))
    message_bytes = data.draw(st.sampled_from([segments * 1000, segments * 999 + 7]))
    schedule = pat.schedule(name, ranks, segments, predicted_s, segment_time_s=0.001)
    stored = pat.simulate(schedule, LINKS[link], message_bytes, arrivals_s)
    found = generated(
        name,
        ranks,
        segments,
        LINKS[link],
        message_bytes,
        arrivals_s,
        in_order=in_order,
        predicted_s=predicted_s,
    )
    assert tuple(found[0]) == stored.finish_s
    assert found[1] == stored.average_elapsed_s
    assert found[2] == stored.after_last_arrival_s


@pytest.mark.parametrize("late", range(5))
@pytest.mark.parametrize("name", ["ring", "clairvoyant"])
def test_what_waits_for_a_slow_processor_hides_nothing_behind_it(name, late):
    """A result can come round while sums of what waited for the arrival are still to be done."""
    arrivals_s = [0.03125 * (rank == late) for rank in range(5)]
    for segments in (33, 52, 60):
        schedule = pat.schedule(name, 5, segments, arrivals_s, segment_time_s=0.001)
        stored = pat.simulate(schedule, LINKS["slow sums"], segments * 1000, arrivals_s)
        for in_order in (False, True):
            found = generated(
                name,
                5,
                segments,
                LINKS["slow sums"],
                segments * 1000,
                arrivals_s,
                in_order=in_order,
                predicted_s=arrivals_s,
            )
            assert tuple(found[0]) == stored.finish_s


@pytest.mark.parametrize("ranks", [100, 257])
@pytest.mark.parametrize("name", ["ring", "recursive_doubling", "slt"])
def test_many_ranks_of_which_some_are_late(name, ranks):
    """So late that many messages wait, beyond what is generated ahead."""
    arrivals_s = [0.02 * (rank % 7 == 3) + 1e-5 * (rank * 37 % 101) for rank in range(ranks)]
    segments = 24 if name == "recursive_doubling" else ranks
    schedule = pat.schedule(name, ranks, segments)
    stored = pat.simulate(schedule, LINK, segments * 1000, arrivals_s)
    for in_order in (False, True):
        found = generated(
            name, ranks, segments, LINK, segments * 1000, arrivals_s, in_order=in_order
        )
        assert tuple(found[0]) == stored.finish_s


loggps = st.builds(
    pat.LogGP, *([st.floats(1e-6, 1e-4)] * 3), st.floats(1e-9, 1e-7), st.floats(1e7, 1e10)
)


@given(
    st.sampled_from(["ring", "slt", "prr"]),
    st.lists(st.floats(0, 0.01), min_size=2, max_size=9),
    st.lists(loggps, min_size=9, max_size=9),
    st.booleans(),
)
def test_one_rank_after_the_other_is_as_in_the_order_of_time(name, arrivals_s, models, posted):
    """Ranks of nine kinds: what happens on one never hangs on when another was run."""
    ranks = len(arrivals_s)
    network = pat.Network(models[:ranks], posted_before_arrival=posted)
    by_rank, by_time = (
        generated(name, ranks, 2 * ranks, network, 40_000, arrivals_s, in_order=in_order)
        for in_order in (False, True)
    )
    assert by_rank == by_time


def test_a_reduce_and_a_broadcast_are_as_stored():
    reduce = [[Step("recv_reduce", 1, 0, 2)], [Step("recv_reduce", 2, 0, 2), Step("send", 0, 0, 2)]]
    reduce.append([Step("send", 1, 0, 2)])
    spread = [[Step("send", 1, 0, 1), Step("send", 1, 1, 2)]]
    spread.append(
        [step for s in (0, 1) for step in (Step("recv", 0, s, s + 1), Step("send", 2, s, s + 1))]
    )
    spread.append([Step("recv", 1, 0, 1), Step("recv", 1, 1, 2)])
    for steps, arrivals_s in ((reduce, [0, 0.1, 0.2]), (spread, [0.1, 0.3, 0])):
        schedule = pat.Schedule.from_steps(steps, 2, collective="reduce")
        stored = pat.simulate(schedule, LINK, 10_000, arrivals_s)
        found = pat.simulate(schedule, LINK, 10_000, arrivals_s, account=True)
        assert found.finish_s == stored.finish_s


def test_memory_does_not_grow_with_the_rounds():
    """1,000 ranks and 4 * 10^6 steps: a stored schedule of 20 bytes a step would be 80 MB."""
    result = pat.simulate_algorithm("ring", 1000, link=LINK, message_bytes=1_000_000)
    round_s = 20e-6 + 1000 / 25e6
    expected_s = 2 * 999 * round_s + 999 * 1000 / 5e9
    assert result.after_last_arrival_s == pytest.approx(expected_s)
    assert len(set(result.finish_s)) == 1


def test_doubling_of_thousands_of_ranks():
    result = pat.simulate_algorithm("recursive_doubling", 4096, 1, link=LINK, message_bytes=1000)
    assert result.after_last_arrival_s == pytest.approx(12 * (20e-6 + 1000 / 25e6 + 1000 / 5e9))


def test_deadlock_and_ends_that_do_not_match_are_named():
    wait = [Step("recv", 1, 0, 1), Step("send", 1, 0, 1)]
    circle = [wait, [Step("recv", 0, 0, 1), Step("send", 0, 0, 1)]]
    with pytest.raises(pat.ScheduleError, match="deadlock: rank 0 step 0"):
        pat.simulate(pat.Schedule.from_steps(circle, 1), LINK, 100, account=True)
    lost = [[Step("send", 1, 0, 1)], []]
    with pytest.raises(pat.ScheduleError, match="rank 0 sends 1 messages to rank 1, which takes 0"):
        pat.simulate(pat.Schedule.from_steps(lost, 1), LINK, 100, account=True)
    other = [[Step("send", 1, 0, 1)], [Step("recv", 0, 1, 2)]]
    with pytest.raises(pat.ScheduleError, match="takes segments"):
        pat.simulate(pat.Schedule.from_steps(other, 2), LINK, 100, account=True)
    outside = [[Step("send", 2, 0, 1)], []]
    with pytest.raises(pat.ScheduleError, match="another rank below 2"):
        pat.simulate(pat.Schedule.from_steps(outside, 1), LINK, 100, account=True)


def test_bad_input():
    with pytest.raises(pat.ScheduleError, match="unknown algorithm"):
        pat.simulate_algorithm("rings", 4, link=LINK, message_bytes=100)
    with pytest.raises(pat.ScheduleError, match="one arrival per rank"):
        pat.simulate_algorithm("ring", 4, link=LINK, message_bytes=100, arrivals_s=[0])
    with pytest.raises(ValueError, match="message_bytes.*-1"):
        pat.simulate_algorithm("ring", 4, link=LINK, message_bytes=-1)
