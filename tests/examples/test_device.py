"""Which device a rank of the example takes, and what its clock says, as far as a processor can."""

import os
import subprocess
import sys

import device
import pytest
import torch
from device import GpuClock, HostClock, choose_place, make_clock


@pytest.fixture(name="gpus")
def gpus_fixture(monkeypatch):
    """`gpus(2)`: torch sees two; which one became current is noted in the list returned."""
    monkeypatch.delenv("NCCL_HOSTID", raising=False)

    def gpus(count, rank=0, ranks=1):
        current = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "set_device", current.append)
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        return current

    return gpus


def test_the_processor_needs_no_gpu(gpus):
    current = gpus(2)
    place = choose_place("cpu")

    assert (str(place.device), place.backend, place.device_ids) == ("cpu", "gloo", None)
    assert current == []


@pytest.mark.parametrize(("rank", "index"), [(0, 0), (1, 1), (3, 3)])
def test_each_rank_takes_the_gpu_of_its_number(gpus, rank, index):
    current = gpus(4, rank, ranks=4)
    place = choose_place("cuda")

    assert current == [place.device] == [torch.device("cuda", index)]
    assert place.backend == "cpu:gloo,cuda:nccl"
    assert place.device_ids == [index]
    assert "NCCL_HOSTID" not in os.environ


def test_ranks_that_share_a_gpu_look_like_hosts_of_their_own(gpus):
    hosts = []
    for rank in range(3):
        gpus(2, rank, ranks=3)
        assert choose_place("cuda").device_ids == [rank % 2]
        hosts.append(os.environ.pop("NCCL_HOSTID"))
    assert len(set(hosts)) == 3


def test_what_the_user_says_of_hosts_is_kept(gpus, monkeypatch):
    gpus(1, 1, ranks=2)
    monkeypatch.setenv("NCCL_HOSTID", "mine")
    choose_place("cuda")
    assert os.environ["NCCL_HOSTID"] == "mine"


def test_no_gpu_is_said_before_anything_else(examples):
    hidden = {"CUDA_VISIBLE_DEVICES": "", "LOCAL_RANK": "0"}
    run = subprocess.run(
        [sys.executable, str(examples / "train_cifar.py"), "--device", "cuda"],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | hidden,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == f"--device cuda: torch {torch.__version__} sees no GPU\n"


def test_the_host_clock_is_the_clock():
    clock = make_clock(torch.device("cpu"), may_delay=True)
    assert isinstance(clock, HostClock)

    start_s = clock.start()
    clock.delay(0.02)
    assert clock.seconds(clock.mark()) - start_s >= 0.02


class FakeEvent:
    """Of a GPU that is 100 ms behind its host, and whose clock starts anywhere."""

    now_ms = 5e6

    def __init__(self, *, enable_timing):
        assert enable_timing
        self.at_ms = None

    def record(self):
        self.at_ms = self.now_ms

    def synchronize(self):
        assert self.at_ms is not None

    def elapsed_time(self, later):
        return later.at_ms - self.at_ms


def test_marks_on_a_gpu_are_put_on_the_clock_of_the_host(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(device.time, "monotonic", lambda: 42.0)
    clock = GpuClock(may_delay=False)

    assert clock.start() == 42.0
    monkeypatch.setattr(FakeEvent, "now_ms", 5e6 + 250)
    mark = clock.mark()
    monkeypatch.setattr(device.time, "monotonic", lambda: 99.0)
    assert clock.seconds(mark) == 42.25


def test_a_delay_is_as_many_cycles_as_the_gpu_counts_meanwhile(monkeypatch):
    slept = []

    def sleep(cycles):
        slept.append(cycles)
        FakeEvent.now_ms += cycles / 1.5e6  # 1.5 GHz

    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "_sleep", sleep, raising=False)
    monkeypatch.setattr(FakeEvent, "now_ms", 0.0)
    clock = GpuClock(may_delay=True)
    slept.clear()

    clock.delay(0.08)
    clock.delay(0.0)

    assert slept == [pytest.approx(0.08 * 1.5e9, rel=1e-6)]
