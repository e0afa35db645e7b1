"""When something happened, by the host's clock: with events of a fake GPU, no GPU is needed."""

import time

import pytest
import torch

from patallreduce import clocks
from patallreduce.clocks import GpuClock, HostClock, make_clock

AHEAD_S = 1234.5  # of the fake GPU's clock
CYCLES_PER_S = 1e9


class FakeGpu:
    """A stream whose work ends at a known time, and events on it."""

    def __init__(self):
        self.busy_until_s = 0.0

    def now_s(self):
        return max(time.monotonic(), self.busy_until_s) + AHEAD_S

    def sleep(self, cycles):
        self.busy_until_s = max(time.monotonic(), self.busy_until_s) + cycles / CYCLES_PER_S


@pytest.fixture(name="gpu")
def gpu_fixture(monkeypatch):
    gpu = FakeGpu()

    class Event:
        def __init__(self, *, enable_timing):
            assert enable_timing

        def record(self):
            self.at_s = gpu.now_s()

        def synchronize(self):
            time.sleep(max(0.0, self.at_s - AHEAD_S - time.monotonic()))

        def elapsed_time(self, later):
            return (later.at_s - self.at_s) * 1e3

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", gpu.sleep, raising=False)
    return gpu


def test_the_host_clock_is_the_clock():
    clock = make_clock(torch.device("cpu"), may_delay=True)
    assert isinstance(clock, HostClock)

    start_s = clock.start()
    clock.delay(0.02)
    assert clock.seconds(clock.mark()) - start_s >= 0.02


@pytest.mark.parametrize("tries", [1, 20])
@pytest.mark.usefixtures("gpu")
def test_marks_on_a_gpu_are_put_on_the_clock_of_the_host(tries):
    clock = GpuClock(tries=tries)
    clock.start()
    before_s = time.monotonic()
    mark = clock.mark()
    after_s = time.monotonic()

    slack_s = clock.width_s + 1e-4
    assert before_s - slack_s <= clock.seconds(mark) <= after_s + slack_s
    if tries > 1:
        assert clock.width_s < 0.01


def test_a_delay_lasts_as_asked_and_the_host_goes_on(gpu):
    clock = make_clock(torch.device("cuda"), may_delay=True)
    clock.start()
    first = clock.mark()
    clock.delay(0.05)
    last = clock.mark()
    queued_s = time.monotonic()
    assert gpu.busy_until_s - queued_s > 0.03

    assert clock.seconds(last) - clock.seconds(first) == pytest.approx(0.05, abs=0.01)
    assert time.monotonic() - queued_s > 0.03


class FakeEvent:
    """Of a GPU whose time passes only as it is told; its clock starts anywhere."""

    now_ms = 5e6

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        self.at_ms = self.now_ms

    def synchronize(self):
        assert self.at_ms is not None

    def elapsed_time(self, later):
        return later.at_ms - self.at_ms


def test_time_between_events_is_time_of_the_host(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(clocks.time, "monotonic", lambda: 42.0)
    clock = GpuClock()

    assert clock.start() == 42.0
    monkeypatch.setattr(FakeEvent, "now_ms", 5e6 + 250)
    mark = clock.mark()
    monkeypatch.setattr(clocks.time, "monotonic", lambda: 99.0)
    assert clock.seconds(mark) == 42.25


def test_a_delay_is_as_many_cycles_as_the_gpu_counts_meanwhile(monkeypatch):
    slept = []

    def sleep(cycles):
        slept.append(cycles)
        FakeEvent.now_ms += cycles / 1.5e6  # 1.5 GHz

    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "_sleep", sleep, raising=False)
    monkeypatch.setattr(FakeEvent, "now_ms", 0.0)
    clock = make_clock(torch.device("cuda"), may_delay=True)
    slept.clear()

    clock.delay(0.08)
    clock.delay(0.0)

    assert slept == [pytest.approx(0.08 * 1.5e9, rel=1e-6)]
