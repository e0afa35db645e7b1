"""A GPU's clock on the machine's: with events that are played, no GPU is needed."""

import time

import pytest
import torch

from benchmarks.gpu_device import Gpu

pytestmark = pytest.mark.alone  # it measures times

AHEAD_S = 1234.5  # of the played GPU's clock
CYCLES_PER_S = 1e9


class PlayedGpu:
    """A stream whose work ends at a known time, and events on it."""

    def __init__(self):
        self.busy_until_s = 0.0

    def now_s(self):
        return max(time.monotonic(), self.busy_until_s) + AHEAD_S

    def sleep(self, cycles):
        self.busy_until_s = max(time.monotonic(), self.busy_until_s) + cycles / CYCLES_PER_S

    def synchronize(self):
        time.sleep(max(0.0, self.busy_until_s - time.monotonic()))


@pytest.fixture(name="gpu")
def gpu_fixture(monkeypatch):
    played = PlayedGpu()

    class Event:
        def __init__(self, *, enable_timing):
            assert enable_timing

        def record(self):
            self.at_s = played.now_s()

        def synchronize(self):
            time.sleep(max(0.0, self.at_s - AHEAD_S - time.monotonic()))

        def elapsed_time(self, later):
            return (later.at_s - self.at_s) * 1e3

    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", played.sleep)
    monkeypatch.setattr(torch.cuda, "synchronize", played.synchronize)
    return Gpu()


def test_marks_are_told_in_the_machines_time(gpu):
    gpu.anchor()
    before_s = time.monotonic()
    mark = gpu.mark()
    after_s = time.monotonic()

    slack_s = gpu.anchor_width_s + 1e-4
    assert before_s - slack_s <= gpu.time_s(mark) <= after_s + slack_s
    assert gpu.anchor_width_s < 0.01


def test_a_delay_lasts_as_asked_and_the_host_goes_on(gpu):
    gpu.accept(gpu.calibrate())
    gpu.anchor()
    first = gpu.mark()
    gpu.delay(0.05)
    last = gpu.mark()
    queued_s = time.monotonic()

    assert gpu.time_s(last) - gpu.time_s(first) == pytest.approx(0.05, abs=0.01)
    assert time.monotonic() - queued_s > 0.03
