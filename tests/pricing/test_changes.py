"""What it costs a port to change partners."""

from dataclasses import replace

import pytest

import patallreduce as pat
from patallreduce import Step
from patallreduce.pricing.selection import prices_s

# 100 bytes take 1 s, and are there 1 s later; the next message can leave at once.
ALIKE = pat.Link(1, 100, 1e12, port_share=0.0)
CHANGES = replace(ALIKE, change_share=0.5)


def finish_s(steps, segments, link, message_bytes, arrivals_s=None):
    schedule = pat.Schedule.from_steps(steps, segments, collective="broadcast")
    return pat.simulate(schedule, link, message_bytes, arrivals_s).finish_s


def to_each(*receivers, segments):
    """Rank 0 sends each of them so many segments, one after the other."""
    steps = [[] for _ in range(max(receivers) + 1)]
    for segment in range(segments):
        for receiver in receivers:
            steps[0].append(Step("send", receiver, segment, segment + 1))
            steps[receiver].append(Step("recv", 0, segment, segment + 1))
    return steps


def test_a_short_message_to_another_waits():
    assert finish_s(to_each(1, 2, 3, segments=1), 1, CHANGES, 0)[1:] == (1, 1.5, 2)
    assert finish_s(to_each(1, 2, 3, segments=1), 1, ALIKE, 0)[1:] == (1, 1, 1)


def test_so_does_one_from_another():
    steps = [
        [Step("recv", 1, 0, 1), Step("recv", 2, 1, 2)],
        [Step("send", 0, 0, 1)],
        [Step("send", 0, 1, 2)],
    ]
    assert finish_s(steps, 2, CHANGES, 0)[0] == 1.5
    assert finish_s(steps, 2, CHANGES, 0, [0, 0, 0.3])[0] == 1.5
    assert finish_s(steps, 2, CHANGES, 0, [0, 0, 0.7])[0] == 1.7, "it is over by then"


def test_the_same_partner_is_no_change():
    assert finish_s(to_each(1, segments=5), 5, CHANGES, 0)[1] == 1


def test_of_a_long_message_it_is_over_before_that():
    """Of 100 bytes each; of 25, 0.25 s of it are left."""
    steps = to_each(1, 2, segments=1)
    assert finish_s(steps, 1, CHANGES, 100) == finish_s(steps, 1, ALIKE, 100)
    assert finish_s(steps, 1, CHANGES, 25)[2] == 0.5 + 0.25 + 1


def test_what_keeps_the_port_comes_before():
    """0.4 s of each message, and then 0.5 s more until the next."""
    link = replace(CHANGES, port_share=0.4)
    assert finish_s(to_each(1, 2, segments=1), 1, link, 0)[1:] == (1, pytest.approx(0.9 + 1))


def test_several_collectives_share_the_ports_that_change():
    """Three at once between two ranks: to either the other one is the same partner in all."""
    plan = pat.schedule("recursive_doubling", 2)
    together = [0.0, 0.0]
    planner = [pat._core.Planner(2, link) for link in (ALIKE, CHANGES)]
    keys = [("recursive_doubling", plan.segments, [], 0.0)] * 3
    slow, fast = (one.finish_s([(1, 4)] * 3, [together] * 3, keys) for one in planner)
    assert slow == fast


def test_prices_know_it():
    """A flat broadcast of a few bytes to 7 others changes 6 times, a binomial tree twice."""
    alike = pat.Link(1e-4, 25e6)
    with_it, without = (
        prices_s("broadcast", 8, 8, 2, link=link)
        for link in (replace(alike, change_share=0.4), alike)
    )
    assert without["flat_broadcast"] < without["binomial_broadcast"]
    assert with_it["flat_broadcast"] > with_it["binomial_broadcast"]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_bad_shares(share):
    with pytest.raises(ValueError, match=f"Link.change_share: expected 0 to 1, got {share}"):
        pat.Link(1, 1, change_share=share)
