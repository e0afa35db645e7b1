"""What monitors tell each other, without collectives: reports are made up, their order is not."""

import time

import pytest

import patallreduce as pat

LOOP = 7
WAIT_S = 20


@pytest.fixture
def communicators():
    made = pat.Communicator.loopback(2)
    yield made
    for communicator in made:
        communicator.close()


def wait_for(communicator, iteration, true_of):
    """This rank's record of an iteration, as soon as there is one and `true_of` it."""
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        for record in communicator.iterations(LOOP):
            if record.iteration == iteration and true_of(record):
                return record
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
