"""Iterations of a model on a GPU: the GPU's arrivals count, plans are followed, the hook works."""

import time
from statistics import median

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce import Link
from patallreduce.communicator.gpus import Gpus
from patallreduce.communicator.loops import GpuLoop
from patallreduce.communicator.settler import Arguments
from patallreduce.gpu import cuda, nccl
from tests.gpu.communicators import CPU, GpuRanks
from tests.hooks.conftest import group_of_one  # noqa: F401 (a fixture)

COUNT = 3
LATE_S = 0.06
SLOW = Link(latency_s=50e-6, bytes_per_s=20e6)  # worth planning for


@pytest.fixture(name="gpus")
def gpus_fixture(libraries):
    before = libraries.count()
    made = GpuRanks(libraries, COUNT, link=SLOW)
    yield made
    made.close()
    assert libraries.count() == before, "streams, events or memory are left"


def train(communicator, libraries, iterations, late_rank):
    """As the hook does, the GPU busy with each gradient while the host has gone on."""
    loop = communicator.session.new_loop(CPU)
    calls = communicator.session.gpus.of(CPU)
    producer = libraries.new_stream()
    buckets = [torch.empty(50_000), torch.empty(30_000)]
    late_s = LATE_S if communicator.rank == late_rank else 0.0
    called_s = []
    for iteration in range(iterations):
        loop.start(time.monotonic())
        for bucket in buckets:
            bucket.fill_(communicator.rank + iteration)
        tickets = []
        for index, bucket in enumerate(buckets):
            libraries.sleep(producer, 5 + int(1e3 * late_s) * (index == 0))
            call = communicator.session.settle(bucket, Arguments("sum", label=index))
            planned = loop.plan(call, time.monotonic())
            ticket = calls.native.submit(bucket.data_ptr(), planned, producer, 20.0)
            tickets.append(ticket)
            loop.submitted(TimedTicket(ticket), call, time.monotonic())
        called_s.append(time.monotonic())
        loop.arrived([called_s[-1]] * 2)
        for ticket, bucket in zip(tickets, buckets, strict=True):
            calls.native.wait(ticket)
            expected = sum(rank + iteration for rank in range(COUNT))
            assert bucket.eq(expected).all()
        while tickets[-1].finish_s == 0:
            time.sleep(1e-3)
        loop.flush()
    libraries.end_stream(producer)
    return called_s


class TimedTicket:
    """As `GpuTicket`."""

    def __init__(self, native):
        self._native = native
        self.done = True

    @property
    def arrival_s(self):
        return self._native.arrival_s

    @property
    def finish_s(self):
        return self._native.finish_s


@pytest.mark.alone
def test_a_late_gpu_is_predicted_and_planned_for(gpus):
    called_s = gpus.each(lambda c: (_ := c.link, train(c, gpus.libraries, 16, 1))[1])
    for outcome in called_s:
        assert isinstance(outcome, list), outcome

    iterations = gpus.communicators[0].iterations(1)
    assert len(iterations) == 16
    settled = iterations[8:]
    first = [iteration.buckets[0] for iteration in settled]
    late_s = median(bucket.arrival_s[1] - bucket.arrival_s[0] for bucket in first)
    assert late_s == pytest.approx(LATE_S, abs=LATE_S / 2)
    behind_s = [b.arrival_s[1] - host_s for b, host_s in zip(first, called_s[1][8:], strict=True)]
    assert median(behind_s) > LATE_S / 4, "the host's time, not the GPU's"
    # A fake GPU's messages take no time, so the guard may measure that plans win nothing.
    planned = [i.buckets[0] for i in iterations[2:] if i.buckets[0].planned]
    assert planned, "no plan was followed"
    predicted_late_s = [b.predicted_s[1] - max(b.predicted_s[0], b.predicted_s[2]) for b in planned]
    assert median(predicted_late_s) > 0, predicted_late_s


def test_reports_keep_their_order_while_the_gpu_is_behind():
    class Monitor:
        def __init__(self):
            self.heard = []

        def __getattr__(self, name):
            return lambda *arguments: self.heard.append((name, arguments[1]))

    class Ticket:
        arrival_s = 0.0
        finish_s = 0.0
        done = False

    class Silent:
        def look(self):
            pass

    monitor, ticket = Monitor(), Ticket()
    loop = GpuLoop(monitor, Silent(), 1)
    loop.start(1.0)
    loop.submitted(ticket, None, 2.0)
    loop.arrived([2.0])
    loop.start(3.0)
    loop.edge(0.3, 3.1)
    assert monitor.heard == [("started", 0)]
    loop.flush()
    assert loop.is_holding
    ticket.arrival_s = 2.5
    loop.flush()
    assert monitor.heard[1:] == [("arrived", 0), ("started", 1), ("edge", 1)]
    assert not loop.is_holding

    slow = Ticket()
    loop.submitted(slow, None, 4.0)
    loop.arrived([4.0])
    loop.start(5.0)
    call = pat._core.Call(3, pat._core.Dtype.float32, pat._core.Op.sum, 0, "ring", 1, [], 0.0)
    loop.plan(call, 6.0)
    assert monitor.heard[4:] == [("arrived", 1), ("started", 2), ("asked", 2)]


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize("view", [False, True])
def test_the_hook_hands_buckets_to_the_streams(libraries, monkeypatch, view):
    """One rank, whose parameters pose as a GPU's: the same as without a hook."""
    before = libraries.count()
    monkeypatch.setattr(Gpus, "is_gpu", staticmethod(lambda device: True))
    monkeypatch.setattr(cuda, "library_path", lambda: libraries.gpu)
    monkeypatch.setattr(nccl, "library_path", lambda: libraries.nccl)

    def weights(register):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 5))
        ddp = DistributedDataParallel(model, bucket_cap_mb=0.001, gradient_as_bucket_view=view)
        handle = pat.register(ddp, link=SLOW) if register else None
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            ddp(torch.randn(7, 20)).square().mean().backward()
            optimizer.step()
        if handle:
            handle.close()
            assert len(handle.communicator.stats()) >= 5
            assert all(record["finish_s"] > 0 for record in handle.communicator.stats())
        return [parameter.detach().clone() for parameter in model.parameters()]

    for plain, ours in zip(weights(False), weights(True), strict=True):
        assert torch.equal(plain, ours)
    assert libraries.count() == before
