"""What a port that has rested lets through at once, where messages take turns; and its meter."""

from dataclasses import replace

import pytest

import patallreduce as pat
from patallreduce import Step, _core
from patallreduce.communicator.burst_meter import measure_burst
from patallreduce.pricing.selection import choose_segments, prices_s

STEADY = pat.Link(1, 100, 1e12, port_share=0.0)  # 100 bytes take 1 s, and are there 1 s later
TOKENS = replace(STEADY, burst_bytes=50)
KIB = 1 << 10


def exactly(values):
    return pytest.approx(values, rel=1e-9)


def finish_s(steps, segments, link, message_bytes, arrivals_s=None):
    schedule = pat.Schedule.from_steps(steps, segments, collective="broadcast")
    return pat.simulate(schedule, link, message_bytes, arrivals_s).finish_s


def test_two_messages_one_behind_the_other_have_it_once():
    """100 bytes each: the first leaves in 0.5 s, the second takes a whole one."""
    steps = [
        [Step("send", 1, 0, 1), Step("send", 1, 1, 2)],
        [Step("recv", 0, 0, 1), Step("recv", 0, 1, 2)],
    ]
    assert finish_s(steps, 2, TOKENS, 200)[1] == exactly(0.5 + 1 + 1)
    assert finish_s(steps, 2, STEADY, 200)[1] == exactly(1 + 1 + 1)
    assert finish_s(steps, 2, replace(STEADY, burst_bytes=1000), 200)[1] == exactly(1)


def test_it_comes_back_while_the_port_rests():
    """Rank 0 sends 100 bytes at 0 and 100 more when it has them from rank 2, 1.5 s after that."""
    steps = [
        [Step("send", 1, 0, 1), Step("recv", 2, 1, 2), Step("send", 1, 1, 2)],
        [Step("recv", 0, 0, 1), Step("recv", 0, 1, 2)],
        [Step("send", 0, 1, 2)],
    ]
    for at_s, rested in ((0, 1.5 + 0.5 + 1), (10, 11.5 + 0.5 + 1)):
        assert finish_s(steps, 2, TOKENS, 200, [0, 0, at_s])[1] == exactly(rested)


def test_both_ends_need_it():
    """Two ranks send 100 bytes to a third: its port has 50 of them at once, theirs have 50 each."""
    steps = [
        [Step("recv", 1, 0, 1), Step("recv", 2, 1, 2)],
        [Step("send", 0, 0, 1)],
        [Step("send", 0, 1, 2)],
    ]
    assert finish_s(steps, 2, TOKENS, 200)[0] == exactly(0.5 + 1 + 1)


def test_messages_within_a_node_have_none():
    network = pat.Network(TOKENS, nodes=(0, 0))
    steps = [[Step("send", 1, 0, 1)], [Step("recv", 0, 0, 1)]]
    assert finish_s(steps, 1, network, 100)[1] == exactly(2)
    assert finish_s(steps, 1, TOKENS, 100)[1] == exactly(1.5)


def test_the_bound_takes_it_off():
    assert pat.lower_bound(STEADY, 200, [0, 0]).last_finish_s == exactly(3)
    assert pat.lower_bound(TOKENS, 200, [0, 0]).last_finish_s == exactly(2.5)
    network = pat.Network((TOKENS, TOKENS))
    assert pat.lower_bound(network, 200, [0, 0]).last_finish_s == exactly(2.5)
    assert pat.lower_bound(replace(STEADY, burst_bytes=1000), 200, [0, 5]).last_finish_s == exactly(
        6
    )


def test_short_calls_are_priced_with_it_and_plans_without():
    steady = pat.Link(100e-6, 25e6)
    tokens = replace(steady, burst_bytes=33_000)
    with_it, without = (prices_s("broadcast", 8, 28 * KIB, 7 * KIB, link=link, nodes=())
                        for link in (tokens, steady))  # fmt: skip
    assert with_it["chain_broadcast"] < 0.5 * without["chain_broadcast"]
    late_s = [0.1, 0, 0, 0]
    plans = [_core.Planner(4, link).plan([(1 << 20, 4)], [late_s], []) for link in (tokens, steady)]
    assert plans[0][1:] == plans[1][1:]


def test_a_link_says_it():
    assert "200 Mbit/s, 32.2 KiB at once, 20 us" in str(
        pat.Network(pat.Link(20e-6, 25e6, burst_bytes=33_000))
    )
    with pytest.raises(ValueError, match="Link.burst_bytes: expected 0 or more, got -1"):
        pat.Link(1, 1, burst_bytes=-1)


@pytest.mark.parametrize("burst_bytes", [8 * KIB, 33_000, 500 * KIB, 1 << 20])
def test_a_token_bucket_is_measured(burst_bytes):
    link = pat.Link(100e-6, 25e6)

    def rested_s(size):
        return 300e-6 + max(size - burst_bytes, size / 50) / link.bytes_per_s

    assert measure_burst(link, rested_s) == pytest.approx(burst_bytes, rel=0.1)


@pytest.mark.parametrize(
    ("link", "seconds"),
    [
        (pat.Link(100e-6, 25e6), lambda size: size / 25e6),  # none
        (pat.Link(100e-6, 25e6), lambda size: size / 25e6 * 0.97),  # noise
        (pat.Link(20e-6, 3e9), lambda size: size / 3e9 * (0.6 if size < 1 << 20 else 0.8)),  # cache
        (pat.Link(100e-6, 25e6), lambda size: 0.0),  # more than anybody measures
        (pat.Link(10e-3, 25e6), lambda size: max(size - 33_000, 0) / 25e6),  # a long way
    ],
)
def test_nothing_else_is_taken_for_one(link, seconds):
    assert measure_burst(link, lambda size: link.latency_s + seconds(size)) == 0


@pytest.mark.parametrize(
    ("name", "collective"),
    [("chain_broadcast", "broadcast"), ("chain_reduce", "reduce"), ("slt", "all_reduce")],
)
def test_what_goes_through_at_once_is_not_cut(name, collective):
    steady = pat.Link(800e-6, 25e6)

    def segments(message_bytes, link):
        size = (message_bytes, message_bytes // 4)
        return choose_segments(name, 8, *size, link, collective=collective)

    tokens = replace(steady, burst_bytes=32 << 10)
    assert segments(28 << 10, steady) > 1
    assert segments(28 << 10, tokens) == segments(32 << 10, tokens) == 1
    assert segments(256 << 10, tokens) == segments(224 << 10, steady), "of what is beyond it"
    assert segments(1 << 20, tokens) == pytest.approx(segments(1 << 20, steady), abs=1)
