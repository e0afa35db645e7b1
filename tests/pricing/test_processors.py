"""Processors that all ranks share and that move the messages, as in shared memory."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Step, _core
from patallreduce.pricing.selection import prices_s

# 100 bytes take half a second at either end, and fly for 1 s between these.
MANY = pat.Link(1, 100, 1e12, port_share=0.0, processors=9)
TWO, ONE = replace(MANY, processors=2), replace(MANY, processors=1)
KIB = 1 << 10


def exactly(values):
    return pytest.approx(values, rel=1e-9)


def finish_s(steps, segments, link, message_bytes, collective="broadcast"):
    schedule = pat.Schedule.from_steps(steps, segments, collective=collective)
    return pat.simulate(schedule, link, message_bytes).finish_s


def test_half_of_a_message_is_work_at_either_end():
    steps = [[Step("send", 1, 0, 1)], [Step("recv", 0, 0, 1)]]
    for link in (MANY, ONE):
        assert finish_s(steps, 1, link, 100) == exactly((0.5, 0.5 + 1 + 0.5))


def test_two_senders_do_not_wait_for_one_receivers_port():
    """It receives one after the other; through a port each would take a whole second."""
    steps = [
        [Step("recv", 1, 0, 1), Step("recv", 2, 1, 2)],
        [Step("send", 0, 0, 1)],
        [Step("send", 0, 1, 2)],
    ]
    assert finish_s(steps, 2, MANY, 200)[0] == exactly(0.5 + 1 + 0.5 + 0.5)
    assert finish_s(steps, 2, replace(MANY, processors=0), 200)[0] == exactly(1 + 1 + 1)


def test_pairs_that_have_nothing_else_in_common_share_them():
    """Ranks 0 and 2 send to 1 and 3: on one processor the second one sends half a second later."""
    steps = [
        [Step("send", 1, 0, 1)],
        [Step("recv", 0, 0, 1)],
        [Step("send", 3, 0, 1)],
        [Step("recv", 2, 0, 1)],
    ]
    assert finish_s(steps, 1, TWO, 100)[1::2] == exactly((2, 2))
    assert finish_s(steps, 1, ONE, 100)[1::2] == exactly((2, 2.5))


def test_a_rank_that_has_much_to_do_keeps_no_second_processor():
    """Two messages are at rank 0 at 1.5 s and one at 2 s, when rank 3 has one to receive, too."""
    steps = [
        [Step("recv", 1, 0, 1), Step("recv", 2, 2, 3), Step("recv", 1, 1, 2)],
        [Step("send", 0, 0, 1), Step("send", 0, 1, 2)],
        [Step("send", 0, 2, 3)],
        [Step("recv", 4, 2, 3)],
        [Step("send", 3, 2, 3)],
    ]
    schedule = pat.Schedule.from_steps(steps, 3, collective="broadcast")
    found = pat.simulate(schedule, TWO, 300, [0, 0, 0, 0, 0.5]).finish_s
    assert (found[0], found[3]) == exactly((1.5 + 3 * 0.5, 2.5))


def test_sums_take_turns_with_messages():
    """100 bytes are summed in 1 s: two ranks do so on one processor."""
    steps = [
        [Step("send", 1, 0, 1)],
        [Step("recv_reduce", 0, 0, 1)],
        [Step("send", 3, 0, 1)],
        [Step("recv_reduce", 2, 0, 1)],
    ]
    slow = replace(ONE, reduce_bytes_per_s=100)
    # Sends until 0.5 and 1; received by 2 and 2.5; summed by 3.5 and 4.5, in the order of asking.
    assert finish_s(steps, 1, slow, 100, "reduce")[1::2] == exactly((3.5, 4.5))
    assert finish_s(steps, 1, replace(slow, processors=4), 100, "reduce")[1::2] == exactly((3, 3))


def test_a_part_of_the_latency_is_work_too():
    """Of 1 s a half: a quarter at either end of a message. Four are sent one behind the other."""
    steps = [
        [Step("send", 1, n, n + 1) for n in range(4)],
        [Step("recv", 0, n, n + 1) for n in range(4)],
    ]
    link = replace(MANY, port_share=0.5)
    assert finish_s(steps, 4, link, 4)[1] == exactly(4 * (0.25 + 0.005) + 0.5 + 0.25 + 0.005)


@pytest.mark.parametrize("shared_ports", [False, True])
def test_a_network_of_such_links_is_the_same(shared_ports):
    schedule = pat.schedule("direct_exchange", 4, 4)
    network = pat.Network.of_ports(TWO, 4, shared_ports=shared_ports)
    found = [pat.simulate(schedule, of, 400).finish_s for of in (TWO, network)]
    assert found[0] == exactly(found[1])


@given(
    st.sampled_from(sorted(set(pat.algorithms()) - {"slt_dynamic"})),
    st.integers(2, 9),
    st.integers(1, 4),
    st.sampled_from([0, 1, 7]),
)
@settings(max_examples=200, derandomize=True, database=None)
def test_more_of_them_than_ranks_are_each_ranks_own(name, ranks, cuts, late):
    """One alone has the work of all messages, each of which takes it a second for 100 bytes."""
    arrivals_s = [float(late * (rank == 1)) for rank in range(ranks)]
    schedule = pat.schedule(name, ranks, cuts * ranks, arrivals_s)
    link = replace(MANY, reduce_bytes_per_s=1e3)

    def last_s(processors):
        of = replace(link, processors=processors)
        return max(pat.simulate(schedule, of, 100 * ranks, arrivals_s).finish_s)

    assert last_s(ranks) == last_s(ranks + 5)
    messages_s = sum(
        (step.last - step.first) / cuts for steps in all_steps(schedule) for step in steps
        if step.verb == "send"
    )  # fmt: skip
    assert last_s(1) >= max(messages_s, last_s(ranks)) * (1 - 1e-9)


def all_steps(schedule):
    return [schedule.steps(rank) for rank in range(schedule.ranks)]


def test_what_moves_least_is_chosen_where_processors_are_few():
    """Four ranks, eight calls of 80 KiB: a chain has 6 messages, Rabenseifner's all-reduce has 16.

    As many messages of a whole broadcast take as long from one rank as from several.
    """
    link = pat.Link(17e-6, 10e9, 15e9)
    chosen, broadcasts = [], []
    for processors in (0, 4, 2):
        of = replace(link, processors=processors)
        selector = _core.Selector(4, of, [])
        chosen.append(selector.choose_beside_others(20 * KIB, 4)[0])
        prices = prices_s("broadcast", 4, 1 << 20, 1 << 18, link=of)
        broadcasts.append(prices["flat_broadcast"] / prices["binomial_broadcast"])
    assert chosen == ["recursive_doubling", "rabenseifner", "slt"]
    assert broadcasts[0] > 1.35
    assert broadcasts[2] < 0.95


def test_what_sends_to_all_at_once_is_simulated_too():
    link = pat.Link(17e-6, 10e9, 15e9, processors=2)
    priced = {
        name: (segments, price_s)
        for name, segments, _, _, price_s in _core.Selector(4, link, []).price_all(
            64 * KIB, 4, [0.0] * 4
        )
    }
    segments, price_s = priced["direct_exchange"]
    finish_s = pat.simulate(pat.schedule("direct_exchange", 4, segments), link, 256 * KIB).finish_s
    assert price_s == exactly(max(finish_s) + 0.1 * sum(finish_s) / 4)


def test_a_link_says_it():
    assert "800 Mbit/s, processors: 2, 1e+06 us" in str(pat.Network(replace(TWO, bytes_per_s=1e8)))
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match=f"Link.processors: expected 0 or more, got {wrong}"):
            replace(TWO, processors=wrong)


def test_a_network_keeps_it(tmp_path):
    network = pat.Network.of_ports(TWO, 3)
    network.save(tmp_path / "network.json")
    assert pat.Network.load(tmp_path / "network.json") == network


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (pat.Network((TWO, MANY)), "as many processors in every link, got 2 and 9"),
        (pat.Network((TWO, pat.LogGP(1, 1, 1, 1))), "in every link, got 2 and 0"),
        (pat.Network(TWO, nodes=(0, 0)), "no nodes where processors move all messages, got 2"),
    ],
)
def test_processors_are_those_of_one_host(network, told):
    with pytest.raises(pat.ScheduleError, match=told):
        pat.simulate(pat.schedule("ring", 2, 2), network, 100)
