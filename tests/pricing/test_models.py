"""LogGP, PLogP and networks of unlike ranks, against times worked out by hand.

None of these cases has ranks that compete for a port, but where it says so. Seconds and bytes are
small whole numbers.
"""

import pytest

import patallreduce as pat
from patallreduce import Step

# L = 5, o = 2, g = 4, G = 1, gamma = 1/2
LOGGP = pat.LogGP(5, 2, 4, 1, reduce_bytes_per_s=2)
# L = 3, g(n) = 2 + n, os = 1, or(n) = 1 + n / 2, gamma = 1/2
PLOGP = pat.PLogP(3, ((0, 2), (100, 102)), ((0, 1),), ((0, 1), (100, 51)), reduce_bytes_per_s=2)
HOCKNEY = pat.Link(1, 100, 100, port_share=1.0)


def exactly(value):
    return pytest.approx(value, rel=1e-9)


def one_message(link, message_bytes):
    """A reduce of two ranks: 1 sends, 0 adds."""
    steps = [[Step("recv_reduce", 1, 0, 1)], [Step("send", 0, 0, 1)]]
    return pat.simulate(pat.Schedule.from_steps(steps, 1, collective="reduce"), link, message_bytes)


def test_one_message_in_loggp():
    """11 bytes: L + 2 o + 10 G = 19, and 11 / 2 to add; the port is free after g + 10 G = 14."""
    result = one_message(LOGGP, 11)
    assert result.finish_s == exactly((24.5, 14))
    assert result.sends_s == exactly((0, 14))
    assert result.receives_s == exactly((14, 0))
    assert result.works_s == exactly((2 + 5.5, 2))


def test_one_message_in_plogp():
    """10 bytes: L + g = 3 + 12 = 15, and 5 to add; the port is free after g = 12."""
    result = one_message(PLOGP, 10)
    assert result.finish_s == exactly((20, 12))
    assert result.works_s == exactly((6 + 5, 1))


def test_two_messages_of_one_rank_in_loggp():
    """TUNE07, Fig. 4.14: o + 10 G + g + 10 G + L + o = 33 for the second."""
    steps = [
        [Step("send", 1, 0, 1), Step("send", 2, 0, 1)],
        [Step("recv", 0, 0, 1)],
        [Step("recv", 0, 0, 1)],
    ]
    schedule = pat.Schedule.from_steps(steps, 1, collective="broadcast")
    assert pat.simulate(schedule, LOGGP, 11).finish_s[1:] == exactly((19, 33))


def test_an_overhead_longer_than_the_gap():
    """Ports rest for o then: 6 + 10 G, and the second message is there at 16 + 5 + 12 + 10."""
    steps = [
        [Step("send", 1, 0, 1), Step("send", 1, 1, 2)],
        [Step("recv", 0, s, s + 1) for s in (0, 1)],
    ]
    schedule = pat.Schedule.from_steps(steps, 2, collective="broadcast")
    link = pat.LogGP(5, 6, 4, 1)
    assert pat.simulate(schedule, link, 22).finish_s[1] == exactly(16 + 5 + 12 + 10)


@pytest.mark.parametrize("ranks", [2, 4, 7])
def test_a_ring_in_loggp(ranks):
    """TUNE07, Table 4.10: 2 (P-1) (L + 2 o + (m-1) G) + (P-1) gamma m, for a part of m bytes."""
    result = pat.simulate(pat.schedule("ring", ranks), LOGGP, ranks * 21)
    hop_s = 5 + 4 + 20
    expected_s = 2 * (ranks - 1) * hop_s + (ranks - 1) * 10.5
    assert result.finish_s == exactly((expected_s,) * ranks)


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_a_ring_in_plogp(ranks):
    """TUNE07, Table 4.10: 2 (P-1) (L + g(m)) + (P-1) gamma m."""
    result = pat.simulate(pat.schedule("ring", ranks), PLOGP, ranks * 20)
    expected_s = 2 * (ranks - 1) * (3 + 22) + (ranks - 1) * 10
    assert result.finish_s == exactly((expected_s,) * ranks)


@pytest.mark.parametrize(("link", "hop_s"), [(LOGGP, 5 + 4 + 20), (PLOGP, 3 + 23), (HOCKNEY, 1.21)])
def test_recursive_doubling(link, hop_s):
    """TUNE07, Table 4.10: log2 P (hop + gamma m), here of 21 bytes."""
    result = pat.simulate(pat.schedule("recursive_doubling", 8, 1), link, 21, account=True)
    expected_s = 3 * (hop_s + 21 / link.reduce_bytes_per_s)
    assert result.finish_s == exactly((expected_s,) * 8)


def test_a_chain_of_segments_in_loggp():
    """Three ranks, five segments of 11 bytes: the port paces them.

    The first segment: two hops of 19, two sums of 2 (gamma = 2/11). Each further one 14 later.
    """
    link = pat.LogGP(5, 2, 4, 1, reduce_bytes_per_s=5.5)
    steps = [
        [Step("send", 1, s, s + 1) for s in range(5)],
        [
            step
            for s in range(5)
            for step in (Step("recv_reduce", 0, s, s + 1), Step("send", 2, s, s + 1))
        ],
        [Step("recv_reduce", 1, s, s + 1) for s in range(5)],
    ]
    schedule = pat.Schedule.from_steps(steps, 5, collective="reduce", root=2)
    assert pat.simulate(schedule, link, 55).finish_s[2] == exactly(2 * (19 + 2) + 4 * 14)


def test_a_processor_that_is_slower_than_its_port():
    """L = 3, o = 2, gamma m = 1: from 5 on the receiver works, 3 for each of four segments."""
    link = pat.LogGP(3, 2, 1, 0, reduce_bytes_per_s=10)
    steps = [
        [Step("send", 1, s, s + 1) for s in range(4)],
        [Step("recv_reduce", 0, s, s + 1) for s in range(4)],
    ]
    schedule = pat.Schedule.from_steps(steps, 4, collective="reduce", root=1)
    result = pat.simulate(schedule, link, 40)
    assert result.finish_s[1] == exactly(5 + 4 * 3)
    assert result.works_s == exactly((8, 12))


def test_three_ranks_send_to_one_in_loggp():
    """They compete for its port, in the order of ranks: L + 2 o + 10 G, then g + 10 G each.

    TUNE07's linear gather (Table 4.5) leaves the first message's (m-1) G out.
    """
    steps = [
        [Step("recv_reduce", peer, 0, 1) for peer in (1, 2, 3)],
        *([Step("send", 0, 0, 1)] for _ in range(3)),
    ]
    schedule = pat.Schedule.from_steps(steps, 1, collective="reduce")
    result = pat.simulate(schedule, LOGGP, 11)
    assert result.finish_s[0] == exactly(19 + 2 * 14 + 5.5)


def test_a_slow_port_slows_both_its_neighbours():
    """100 bytes over ports of 100 and 50 bytes/s, latency 1: a hop takes 2 or 3, a sum 1."""
    slow = pat.Link(1, 50, 100, port_share=1.0)
    steps = [
        [Step("send", 1, 0, 1)],
        [Step("recv_reduce", 0, 0, 1), Step("send", 2, 0, 1)],
        [Step("recv_reduce", 1, 0, 1)],
    ]
    schedule = pat.Schedule.from_steps(steps, 1, collective="reduce", root=2)
    result = pat.simulate(schedule, pat.Network((HOCKNEY, slow, HOCKNEY)), 100)
    assert result.finish_s == exactly((3, 4, 8))
    result = pat.simulate(schedule, pat.Network((HOCKNEY, HOCKNEY, slow)), 100)
    assert result.finish_s == exactly((2, 3, 7))


def two_pairs():
    """Ranks 0 and 1 send to 2 and 3, and nothing else."""
    steps = [
        [Step("send", 2, 0, 1)],
        [Step("send", 3, 0, 1)],
        [Step("recv", 0, 0, 1)],
        [Step("recv", 1, 0, 1)],
    ]
    return pat.Schedule.from_steps(steps, 1, collective="broadcast")


@pytest.mark.parametrize(
    ("uplink_bytes_per_s", "first_s", "second_s"),
    [(None, 2, 2), (100, 2, 3), (200, 2, 2.5), (50, 3, 5)],
)
def test_an_uplink_is_shared_in_turns(uplink_bytes_per_s, first_s, second_s):
    """100 bytes take 1 + 1 by the port; the second leaves when the first is through the uplink."""
    network = pat.Network(HOCKNEY, nodes=(0, 0, 1, 1), uplink_bytes_per_s=uplink_bytes_per_s)
    result = pat.simulate(two_pairs(), network, 100)
    assert result.finish_s[2:] == exactly((first_s, second_s))


def test_within_a_node_messages_take_its_own_link():
    memory = pat.Link(0.25, 400, 100, port_share=1.0)
    network = pat.Network(HOCKNEY, nodes=(0, 1, 0, 1), within_node=memory, uplink_bytes_per_s=1)
    assert pat.simulate(two_pairs(), network, 100).finish_s[2:] == exactly((0.5, 0.5))


def test_receives_that_are_not_posted_before_arrival():
    """Posted, the message waits on the late rank; not posted, it leaves when that rank comes."""
    schedule = pat.schedule("slt", 2, 1, [0, 10])
    posted = pat.simulate(schedule, pat.Network(HOCKNEY), 100, [0, 10])
    assert posted.finish_s == exactly((13, 11))
    rendezvous = pat.Network(HOCKNEY, posted_before_arrival=False)
    assert pat.simulate(schedule, rendezvous, 100, [0, 10]).finish_s == exactly((15, 13))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (pat.LogGP(-1, 2, 4, 1), "latency_s"),
        (pat.LogGP(5, 2, 4, 1, reduce_bytes_per_s=0), "reduce_bytes_per_s"),
        (pat.PLogP(1, (), ((0, 1),), ((0, 1),)), "gap_s"),
        (pat.PLogP(1, ((5, 1), (5, 2)), ((0, 1),), ((0, 1),)), "ascending"),
        (pat.PLogP(1, ((0, 1),), ((0, 2),), ((0, 1),)), "overheads within the gap"),
        (pat.Network((HOCKNEY,) * 3), "one value per rank"),
        (pat.Network(()), "model"),
        (pat.Network(HOCKNEY, nodes=(0, -1)), "node_of"),
        (pat.Network(HOCKNEY, nodes=(0, 1), uplink_bytes_per_s=0), "uplink_bytes_per_s"),
    ],
)
def test_a_network_has_to_make_sense(network, message):
    with pytest.raises(pat.ScheduleError, match=message):
        pat.simulate(pat.schedule("ring", 2), network, 100)
