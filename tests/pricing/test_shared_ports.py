"""Ports that messages share, token buckets and the cost of a call, against times worked by hand."""

from dataclasses import replace

import pytest

import patallreduce as pat
from patallreduce import Step

LINK = pat.Link(1, 100, 1e12, port_share=0.0)  # 100 bytes take 1 s, and are there 1 s later


def exactly(value):
    return pytest.approx(value, rel=1e-9)


def shared(**changed):
    return pat.Network(LINK, shared_ports=True, **changed)


def to_three(link):
    """Rank 0 has 100 bytes for each of three others."""
    steps = [[Step("send", peer, 0, 1) for peer in (1, 2, 3)]]
    steps += [[Step("recv", 0, 0, 1)] for _ in range(3)]
    schedule = pat.Schedule.from_steps(steps, 1, collective="broadcast")
    return pat.simulate(schedule, link, 100)


def test_a_sender_divides_itself_evenly():
    """All three are sent at 3 and there at 4; where they take turns at 2, 3 and 4."""
    assert to_three(shared()).finish_s == exactly((3, 4, 4, 4))
    assert to_three(LINK).finish_s[1:] == exactly((2, 3, 4))


def of_partners(partners):
    return pat.Network(replace(LINK, partners=partners), shared_ports=True)


@pytest.mark.parametrize(("partners", "sent_s"), [(1, 3), (1.5, 2), (2, 1.5), (3, 1), (8, 1)])
def test_a_port_that_takes_several_partners_to_fill(partners, sent_s):
    """No message leaves faster than one does alone."""
    assert to_three(of_partners(partners)).finish_s == exactly((sent_s, *[sent_s + 1] * 3))


@pytest.mark.parametrize(("partners", "there_s"), [(1, 4), (2, 2.5), (3, 2), (8, 2)])
def test_what_several_partners_send_to_one(partners, there_s):
    """All three have sent at 1; its port lets through what it can, and they wait in the switch."""
    steps = [[Step("recv_reduce", peer, 0, 1) for peer in (1, 2, 3)]]
    steps += [[Step("send", 0, 0, 1)] for _ in range(3)]
    schedule = pat.Schedule.from_steps(steps, 1, collective="reduce")
    found = pat.simulate(schedule, of_partners(partners), 100)
    assert found.finish_s == exactly((there_s, 1, 1, 1))


def test_messages_of_one_pair_take_turns_whoever_else_the_port_has_room_for():
    steps = [[Step("send", 1, n, n + 1) for n in range(3)]]
    steps += [[Step("recv", 0, n, n + 1) for n in range(3)]]
    schedule = pat.Schedule.from_steps(steps, 3, collective="broadcast")
    assert pat.simulate(schedule, of_partners(3), 300).finish_s == exactly((3, 4))


def test_a_port_is_busy_as_long_whether_shared_or_not():
    for link in (shared(), pat.Network(LINK)):
        result = to_three(link)
        assert result.sends_s == exactly((3, 0, 0, 0))
        assert result.receives_s == exactly((0, 1, 1, 1))


def test_what_comes_to_a_busy_port_waits_in_the_switch():
    """Ranks 1 and 2 send at full rate, are free at 1, and leave 1 s of work for rank 0's port."""
    steps = [
        [Step("recv_reduce", 1, 0, 1), Step("recv_reduce", 2, 0, 1)],
        [Step("send", 0, 0, 1)],
        [Step("send", 0, 0, 1)],
    ]
    schedule = pat.Schedule.from_steps(steps, 1, collective="reduce")
    assert pat.simulate(schedule, shared(), 100).finish_s == exactly((3, 1, 1))


def test_a_slow_receiver_is_no_slow_sender():
    """Rank 0's 100 bytes for each of 1 and 2 leave by 2; 1's port, a quarter, takes 4 s for them.

    Half of the sending port is for each: 50 bytes/s come to rank 1, whose 25 bytes/s begin at once.
    Where messages take turns, rank 0 is held up by rank 1 for 4 s.
    """
    steps = [[Step("send", peer, 0, 1) for peer in (1, 2)]]
    steps += [[Step("recv", 0, 0, 1)] for _ in range(2)]
    schedule = pat.Schedule.from_steps(steps, 1, collective="broadcast")
    links = [pat.Link(1, rate, 1e12, port_share=0.0) for rate in (100, 25, 100)]
    network = pat.Network(links, shared_ports=True)
    assert pat.simulate(schedule, network, 100).finish_s == exactly((2, 5, 3))
    assert pat.simulate(schedule, pat.Network(links), 100).finish_s == exactly((5, 5, 6))


def two_pairs():
    """Ranks 0 and 1 of a node have 100 bytes each for ranks 2 and 3 of another."""
    steps = [[Step("send", 2, 0, 1)], [Step("send", 3, 0, 1)]]
    steps += [[Step("recv", 0, 0, 1)], [Step("recv", 1, 0, 1)]]
    return pat.Schedule.from_steps(steps, 1, collective="broadcast")


@pytest.mark.parametrize(
    ("uplinks", "arrivals_s", "finish_s"),
    [
        # Both have half of 100 bytes/s; alone one would be there at 2.
        (100, (0, 0), (3, 3)),
        # The second starts when half of the first has left: both have 50 and 100 bytes left.
        (100, (0, 0.5), (2.5, 3)),
        # Out through 100 bytes/s by 2; in through 50, which are full from 0 to 4.
        ((100, 50), (0, 0), (5, 5)),
        # A rank's own port is no wider than 100.
        (400, (0, 0), (2, 2)),
    ],
)
def test_a_nodes_uplink_is_shared_evenly(uplinks, arrivals_s, finish_s):
    network = shared(nodes=(0, 0, 1, 1), uplink_bytes_per_s=uplinks)
    result = pat.simulate(two_pairs(), network, 100, [*arrivals_s, 0, 0])
    assert result.finish_s[2:] == exactly(finish_s)


def test_within_a_node_no_uplink_is_taken():
    memory = pat.Link(0.25, 400, 1e12, port_share=0.0)
    network = shared(nodes=(0, 1, 0, 1), within_node=memory, uplink_bytes_per_s=1)
    assert pat.simulate(two_pairs(), network, 100).finish_s[2:] == exactly((0.5, 0.5))


def two_messages(*, bytes_each):
    steps = [
        [Step("send", 1, s, s + 1) for s in (0, 1)],
        [Step("recv", 0, s, s + 1) for s in (0, 1)],
    ]
    return pat.Schedule.from_steps(steps, 2, collective="broadcast"), 2 * bytes_each


def test_messages_between_the_same_ranks_take_turns():
    """Rank 1 passes each on as it comes: at 2 and at 3."""
    steps = [
        [Step("send", 1, s, s + 1) for s in (0, 1)],
        [Step(verb, peer, s, s + 1) for s in (0, 1) for verb, peer in (("recv", 0), ("send", 2))],
        [Step("recv", 1, s, s + 1) for s in (0, 1)],
    ]
    schedule = pat.Schedule.from_steps(steps, 2, collective="broadcast")
    assert pat.simulate(schedule, shared(), 200).finish_s == exactly((2, 3, 5))


def test_tokens_let_the_first_bytes_through_at_once():
    """Of 2 x 50 bytes 50 are free: both ports have tokens, and a byte needs both."""
    schedule, message_bytes = two_messages(bytes_each=50)
    assert pat.simulate(schedule, shared(burst_bytes=50), message_bytes).finish_s[1] == exactly(1.5)
    assert pat.simulate(schedule, shared(), message_bytes).finish_s[1] == exactly(2)
    assert pat.simulate(schedule, shared(burst_bytes=500), message_bytes).finish_s[1] == exactly(1)


def test_tokens_come_back_while_a_port_rests():
    """Rank 0 sends 50 bytes at 0 and 50 more at 11, when it has them from rank 2: both at once."""
    steps = [
        [Step("send", 1, 0, 1), Step("recv", 2, 1, 2), Step("send", 1, 1, 2)],
        [Step("recv", 0, 0, 1), Step("recv", 0, 1, 2)],
        [Step("send", 0, 1, 2)],
    ]
    schedule = pat.Schedule.from_steps(steps, 2, collective="broadcast")
    tokens = shared(burst_bytes=50)
    assert pat.simulate(schedule, tokens, 100, [0, 0, 10]).finish_s[1] == exactly(12)
    # 100 bytes each: rank 2's are there at 0.5 + 1; rank 0 left at 0.5, so has half of its tokens
    # back at 1, and all of them at 1.5: its own take 0.5 s again.
    assert pat.simulate(schedule, tokens, 200).finish_s[1] == exactly(1.5 + 0.5 + 1)
    # With 150 bytes of tokens the first was out at 0, and rank 2's at once: at 1 all are back.
    assert pat.simulate(schedule, shared(burst_bytes=150), 200).finish_s[1] == exactly(2)


def test_a_shared_port_needs_its_tokens_for_whoever_comes_first():
    """Two of 50 bytes at once: 50 are free for the first, the second takes 0.5 s alone."""
    steps = [
        [Step("send", 1, 0, 1), Step("send", 2, 0, 1)],
        [Step("recv", 0, 0, 1)],
        [Step("recv", 0, 0, 1)],
    ]
    schedule = pat.Schedule.from_steps(steps, 1, collective="broadcast")
    found = pat.simulate(schedule, shared(burst_bytes=50), 50).finish_s
    assert found == exactly((0.5, 1, 1.5))


@pytest.mark.parametrize("ranks", range(2, 10))
def test_where_no_two_messages_meet_sharing_changes_nothing(ranks):
    schedule = pat.schedule("ring", ranks, ranks)
    turns = pat.simulate(schedule, pat.Network(LINK), 840 * ranks)
    assert pat.simulate(schedule, shared(), 840 * ranks).finish_s == exactly(turns.finish_s)


@pytest.mark.parametrize("name", sorted(pat.algorithms()))
def test_every_algorithm_ends_no_sooner_than_its_bytes_take(name):
    ranks, message_bytes = 6, 24_000
    schedule = pat.schedule(name, ranks, 12, [0.5 * r for r in range(ranks)], segment_time_s=40.0)
    result = pat.simulate(schedule, shared(), message_bytes)
    assert max(result.finish_s) >= max(result.receives_s)
    again = pat.simulate(schedule, shared(), message_bytes)
    assert again.finish_s == result.finish_s


def test_in_loggp_overheads_come_before_and_after_the_port():
    """As in turns: L + 2 o + 10 G = 19, and 11 / 2 to add."""
    loggp = pat.LogGP(5, 2, 0, 1, reduce_bytes_per_s=2)
    steps = [[Step("recv_reduce", 1, 0, 1)], [Step("send", 0, 0, 1)]]
    schedule = pat.Schedule.from_steps(steps, 1, collective="reduce")
    for network in (pat.Network(loggp), pat.Network(loggp, shared_ports=True)):
        assert pat.simulate(schedule, network, 11).finish_s == exactly((24.5, 12))


@pytest.mark.parametrize("shared_ports", [False, True])
def test_a_call_works_before_its_first_step(shared_ports):
    schedule = pat.schedule("recursive_doubling", 2, 1)
    network = pat.Network(LINK, shared_ports=shared_ports, call_s=3)
    assert pat.simulate(schedule, network, 100, [0, 4]).finish_s == exactly((9, 8))
    assert pat.simulate(schedule, network, 100, [0, 4]).average_elapsed_s == exactly(6.5)
    generated = pat.simulate_algorithm(
        "recursive_doubling", 2, 1, link=network, message_bytes=100, arrivals_s=[0, 4]
    )
    assert generated.finish_s == exactly((9, 8))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"shared_ports": True, "burst_bytes": -1.0}, "burst_bytes"),
        ({"call_s": -1.0}, "call_s"),
        ({"uplink_bytes_per_s": [10.0], "nodes": (0, 1)}, "for each node up to 1, got 1"),
        ({"uplink_bytes_per_s": [10.0, -1.0], "nodes": (0, 1)}, "finite uplink_bytes_per_s > 0"),
    ],
)
def test_what_makes_no_sense_is_refused(changed, complaint):
    schedule = pat.schedule("ring", 2, 2)
    with pytest.raises(pat.ScheduleError, match=complaint):
        pat.simulate(schedule, pat.Network(LINK, **changed), 100)


def test_a_network_of_nodes_has_uplinks_as_wide_as_all_partners_need():
    link = replace(LINK, partners=3)
    network = pat.Network.of_ports(link, 4, nodes=[0, 0, 1, 1])
    assert network.uplink_bytes_per_s == (300, 300)
    assert network.link == link
    assert "0.0008 Mbit/s between two ranks, 0.0024 Mbit/s from one to all" in str(network)
