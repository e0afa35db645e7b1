"""Monitors and ranks that end: training goes on where it can, and ends as ever where it cannot."""

import gc
import logging
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce import _core
from tests.processes import RankDiedError
from tests.threads import errors_on_threads, on_threads

RANKS = 5
LINK = pat.Link(50e-6, 2e6)
ELEMENTS = 4000  # worth a plan
SUM = RANKS * (RANKS + 1) // 2


def loopback(ranks=RANKS, timeout_s=20, **arguments):
    return pat.Communicator.loopback(ranks, timeout_s, link=LINK, **arguments)


def add_up(communicator):
    tensor = torch.full((ELEMENTS,), float(communicator.rank + 1))
    communicator.all_reduce(tensor)
    ranks = communicator.ranks
    assert tensor.eq(ranks * (ranks + 1) // 2).all()


def keep_on(communicator, failing, iterations=12, at=5):
    """Calls during which this rank's monitor fails, if it is one of `failing`."""
    for iteration in range(iterations):
        if iteration == at and communicator.rank in failing:
            communicator.session.monitor.fail("by the test")
        time.sleep(1e-3 * (communicator.rank + 1))
        add_up(communicator)
    return [s["schedule"] for s in communicator.stats()]


def warnings_in(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def assert_all_go_on(communicators, failing):
    schedules = on_threads(communicators, keep_on, failing)
    assert all(others == schedules[0] for others in schedules)
    assert all(communicator.usable for communicator in communicators)
    return schedules[0]


def test_when_the_leaders_monitor_fails_all_go_on_with_their_own_schedules(caplog):
    communicators = loopback()
    schedules = assert_all_go_on(communicators, {0})
    assert all(schedule.startswith("ring with") for schedule in schedules[-5:])
    assert not any(communicators[1].stats()[i]["planned"] for i in range(-5, 0))
    warned = warnings_in(caplog)
    assert len(warned) == RANKS, "one per rank"
    for text in warned:
        assert "rank 0: the progress monitor ended: by the test" in text
        assert "every call runs its own schedule" in text
    call = _core.Call(1, _core.Dtype.int32, _core.Op.sum, 0, "ring", 1, [], 0.0)
    for communicator in communicators:  # a second model has its own loop, but no warning of it
        communicator.session.new_loop().plan(call, 0.0)
    assert len(warnings_in(caplog)) == RANKS
    on_threads(communicators, pat.Communicator.close)


def test_when_the_leaders_monitor_falls_silent_all_go_on_after_a_while(caplog):
    """As if its thread were stuck: it neither plans nor says that it ended."""
    communicators = loopback(3, timeout_s=4)
    on_threads(communicators, keep_on, set())
    silence_leader(communicators)
    began_s = time.monotonic()
    on_threads(communicators, keep_on, set())
    assert 1 < time.monotonic() - began_s < 4, "half the deadline, once"
    assert all("made no plan for 2" in text for text in warnings_in(caplog))
    assert len(warnings_in(caplog)) == 3
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("at", [3, 4, 5, 6])
def test_plans_that_are_lost_with_the_leaders_monitor_are_heard_from_its_rank(at):
    """Plans that it has decided and not yet sent: its own engine knows them, nobody else's."""
    communicators = loopback(monitor_delay_s=0.1, monitor_seed=at)

    def many_in_flight(communicator):
        tensors = [torch.full((ELEMENTS,), float(communicator.rank + 1)) for _ in range(12)]
        works = []
        for number, tensor in enumerate(tensors):
            time.sleep(1e-3)
            works.append(communicator.all_reduce(tensor, async_op=True))
            if communicator.rank == 0 and number == at:
                communicator.session.monitor.fail("by the test")
                while communicator.session.monitor.failure is None:
                    time.sleep(1e-4)
                communicator.session.monitor.close(0)  # what is held up goes nowhere
        for work, tensor in zip(works, tensors, strict=True):
            work.wait()
            assert tensor.eq(SUM).all()
        return [s["schedule"] for s in communicator.stats()]

    schedules = on_threads(communicators, many_in_flight)
    assert all(others == schedules[0] for others in schedules)
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("failing", [{1}, {3}, {1, 2}, {3, 4}, {1, 2, 3, 4}])
def test_a_rank_whose_monitor_fails_lives_on_the_others_announcements(failing, caplog):
    communicators = loopback()
    assert_all_go_on(communicators, failing)
    warned = warnings_in(caplog)
    assert len(warned) == len(failing)
    for text in warned:
        assert "by the test; this rank takes its schedules from the other ranks" in text
    assert [c.session.monitor.failure is not None for c in communicators] == [
        rank in failing for rank in range(RANKS)
    ]
    on_threads(communicators, pat.Communicator.close)


def test_when_all_monitors_fail_all_go_on(caplog):
    communicators = loopback()
    assert_all_go_on(communicators, set(range(RANKS)))
    assert len(warnings_in(caplog)) == RANKS
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_monitor_that_failed_keeps_nothing_that_is_sent_to_it(failing):
    """Its connections stay: what comes is taken and dropped."""
    communicators = loopback(2)
    communicators[failing].session.monitor.fail("by the test")
    on_threads(communicators, keep_on, set(), 3)
    other = communicators[1 - failing]
    for number in range(100):
        other.session.monitor.edge(1, number, 0.5, 0.0)
    time.sleep(0.05)
    assert other.session.monitor.failure is None
    assert communicators[failing].session.monitor.failure is not None
    on_threads(communicators, pat.Communicator.close)


def silence_leader(communicators):
    """Its monitor stops without a word: plans never come."""
    communicators[0].session.monitor.close(0)


def test_a_rank_that_is_lost_while_others_wait_for_a_plan_is_named():
    hub = []
    made = _core.LoopbackHub

    def remember(ranks):
        hub.append(made(ranks))
        return hub[-1]

    _core.LoopbackHub = remember
    try:
        communicators = loopback(3)
    finally:
        _core.LoopbackHub = made
    silence_leader(communicators)
    timer = threading.Timer(0.2, hub[0].lose, (2,))
    timer.start()
    errors = errors_on_threads(communicators[:2], add_up)
    timer.join()
    for error in errors:
        assert type(error) is pat.PeerLostError
        assert error.rank == 2
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("leaving", [0, 2])
def test_who_waits_for_a_plan_hears_that_a_rank_closed(leaving):
    communicators = loopback(3)
    others = [c for c in communicators if c.rank != leaving]
    timer = threading.Timer(0.2, communicators[leaving].close)
    if leaving != 0:
        silence_leader(communicators)
    timer.start()
    errors = errors_on_threads(others, add_up)
    timer.join()
    for _ in range(2):  # and whoever calls afterwards is told at once
        for error in errors:
            assert type(error) is pat.PeerLostError
            assert error.rank == leaving
            assert f"rank {leaving} closed its communicator after 0 collectives" in str(error)
        errors = errors_on_threads(others, add_up)
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("delay_s", [0, 0.2])
def test_closing_waits_for_calls_that_wait_for_their_plans(delay_s):
    """Also on the leader, without whom there is no plan, and with others yet to call."""
    communicators = loopback(3, monitor_delay_s=delay_s)

    def leave(communicator):
        time.sleep(0.1 * communicator.rank)
        tensors = [torch.ones(ELEMENTS) for _ in range(5)]
        works = [communicator.all_reduce(tensor, async_op=True) for tensor in tensors]
        communicator.close()
        for work, tensor in zip(works, tensors, strict=True):
            work.wait()
            assert tensor.eq(3).all()

    on_threads(communicators, leave)


def test_reports_after_the_end_go_nowhere():
    """Least of all into a file that has got the descriptor's number."""
    communicators = loopback(2)
    loop = communicators[0].session.new_loop()
    on_threads(communicators, add_up)
    on_threads(communicators, pat.Communicator.close)
    pairs = [os.pipe2(os.O_NONBLOCK) for _ in range(64)]  # take all the freed numbers
    loop.start(1.0)
    loop.edge(0.5, 1.0)
    loop.arrived([1.0])
    communicators[0].session.monitor.fail("too late")
    for reading, writing in pairs:
        with pytest.raises(BlockingIOError):
            os.read(reading, 8)
        os.close(reading)
        os.close(writing)


def test_a_forked_child_leaves_the_monitor_alone():
    communicators = loopback(2)
    on_threads(communicators, add_up)
    child = os.fork()
    if child == 0:
        try:
            assert not communicators[0].usable
            communicators[0].close()
            del communicators
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    on_threads(communicators, add_up)
    on_threads(communicators, pat.Communicator.close)


def left_behind():
    """Threads, descriptors and shared memory of this process."""
    gc.collect()  # what tests before this one left to it
    time.sleep(0.2)  # a joined thread may be listed for a moment
    return (
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
        len(list(Path("/dev/shm").glob(f"*{os.getpid()}*"))),
    )


def make_use_close(times):
    for _ in range(times):
        communicators = loopback(3)
        on_threads(communicators, add_up)
        on_threads(communicators, pat.Communicator.close)


def test_communicators_of_threads_leave_nothing_behind():
    make_use_close(3)
    before = left_behind()
    make_use_close(20)
    after = left_behind()
    # Less, where a test before this one was not all over yet.
    assert all(a <= b for a, b in zip(after, before, strict=True)), (before, after)


def use_over_ucx(times):
    for _ in range(times):
        with pat.Communicator(timeout_s=20, link=LINK) as communicator:
            keep_on(communicator, set(), 3)
    dist.barrier()
    return left_behind()


def left_behind_over_ucx():
    return use_over_ucx(2), use_over_ucx(6)


def test_communicators_over_ucx_leave_nothing_behind(processes):
    for before, after in processes.run(3, left_behind_over_ucx):
        # UCX may open one thing late; six communicators that leak leave six.
        assert all(a - b <= 1 for a, b in zip(after, before, strict=True)), (before, after)


def dies_over_ucx(odd_rank):
    communicator = pat.Communicator(timeout_s=10, link=LINK)
    add_up(communicator)
    dist.barrier()
    if communicator.rank == odd_rank:
        os._exit(3)
    with pytest.raises(pat.PeerLostError) as raised:  # sooner than a timeout
        for _ in range(100):
            add_up(communicator)
    communicator.close()
    return raised.value.rank


@pytest.mark.parametrize("odd_rank", [0, 1])
def test_a_rank_that_dies_before_its_planned_call_is_named(processes, odd_rank):
    outcomes = processes.outcomes(3, dies_over_ucx, odd_rank)
    assert isinstance(outcomes.pop(odd_rank).error, RankDiedError)
    assert outcomes == [odd_rank] * 2


def leader_stops():
    communicator = pat.Communicator(timeout_s=2, link=LINK)
    add_up(communicator)
    process = torch.tensor([os.getpid()])
    dist.broadcast(process, 0)
    if communicator.rank == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        with pytest.raises(pat.TransportError) as raised:  # the others gave up, or are gone
            add_up(communicator)
    else:
        time.sleep(0.2)
        with pytest.raises(pat.TransportTimeout, match="rank 0 did not answer") as raised:
            add_up(communicator)
    if communicator.rank == 1:
        time.sleep(1)  # rank 2 must give up as well
        os.kill(int(process), signal.SIGCONT)
    began_s = time.monotonic()
    communicator.close()
    return raised.value.rank, time.monotonic() - began_s


def test_a_leader_that_is_stopped_is_named_by_the_deadline(processes):
    """And what monitors asked it meanwhile keeps nobody's close waiting."""
    ended = processes.run(3, leader_stops, timeout_s=30)
    assert [named for named, _ in ended[1:]] == [0, 0]
    assert max(close_s for _, close_s in ended) < 3


def fails_over_ucx(failing):
    with pat.Communicator(timeout_s=20, link=LINK) as communicator:
        schedules = keep_on(communicator, failing)
        dist.barrier()
        return schedules


@pytest.mark.parametrize("failing", [(0,), (1,), (1, 2), (0, 1, 2, 3)])
def test_monitors_that_fail_over_ucx(processes, failing):
    schedules = processes.run(4, fails_over_ucx, failing)
    assert all(others == schedules[0] for others in schedules)
