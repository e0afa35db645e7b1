"""What monitors tell each other, without collectives: reports are made up, their order is not."""

import math
import time

import pytest

import patallreduce as pat
from patallreduce.records.iterations import Iteration

LOOP = 7
WAIT_S = 20


@pytest.fixture
def communicators():
    made = pat.Communicator.loopback(2)
    yield made
    for communicator in made:
        communicator.close()


def wait_for(communicator, iteration, true_of):
    """This rank's record of an iteration, as soon as there is one and `true_of` it.

    Also of one that has not begun, whose plan has come.
    """
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        for record in communicator.session.monitor.records(LOOP, 1024):
            if record["iteration"] == iteration:
                found = Iteration.from_dict(record)
                if true_of(found):
                    return found
        time.sleep(1e-3)
    raise AssertionError(f"rank {communicator.rank} was not told of iteration {iteration}")


def test_what_no_plan_waits_for_is_told_all_the_same(communicators):
    """Rank 1 makes its progress when the plan has come already: it tells it with its arrival.

    The leader knows from it what progress to wait for in the next iteration, where nobody asks.
    """
    leader, other = communicators
    monitors = [communicator.session.monitor for communicator in communicators]
    now_s = time.monotonic()
    monitors[0].asked(LOOP, 0, now_s)
    wait_for(other, 0, lambda _: True)
    for monitor in monitors:
        monitor.started(LOOP, 0, now_s, [])
        monitor.edge(LOOP, 0, 0.5, now_s + 0.5)
        monitor.asked(LOOP, 0, now_s + 1)
        monitor.arrived(LOOP, 0, [now_s + 1], [])
    for monitor in monitors:
        monitor.started(LOOP, 1, now_s + 1, [now_s + 1])
        monitor.edge(LOOP, 1, 0.5, now_s + 1.5)
    assert wait_for(leader, 1, lambda record: record.decided_s > 0).edges == 2
    (half,) = wait_for(leader, 0, lambda _: True).progress
    assert half.fraction == 0.5
    assert half.at_s == pytest.approx([now_s + 0.5] * 2, abs=0.1)  # of both, on one clock


def test_ranks_tell_now_and_then_how_busy_their_hosts_are(communicators):
    leader, other = communicators
    for iteration in (0, 1):  # the first sample has nothing to be compared with
        for communicator in communicators:
            communicator.session.monitor.started(LOOP, iteration, time.monotonic(), [])
        time.sleep(1.1)

    def told(record):
        return record.host and not any(map(math.isnan, record.host["waited"]))

    assert all(0 <= waited <= 1 for waited in wait_for(leader, 1, told).host["waited"])
    assert wait_for(leader, 0, lambda _: True).host == {}
    own = wait_for(other, 1, lambda record: record.host).host["waited"]
    assert math.isnan(own[0])
    assert not math.isnan(own[1])
