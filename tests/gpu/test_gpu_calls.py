"""What torch is told of a GPU's collectives: devices, streams, futures; torch.cuda is a fake."""

import contextlib
import queue
import threading
from types import SimpleNamespace

import pytest
import torch

from patallreduce import TransportError
from patallreduce.communicator.gpu_calls import GpuCalls, GpuWork
from patallreduce.communicator.gpus import Gpus

GPU = torch.device("cuda", 1)
CALLERS, SIDE = 11, 22  # streams
TIMEOUT_S = 20.0


class Native:
    """Settles a call as soon as it is made, and has its result then."""

    def __init__(self):
        self.submitted, self.joined = [], []
        self._settled = queue.SimpleQueue()

    def submit(self, data, call, stream, timeout_s):
        ticket = SimpleNamespace(
            arrival_s=1.0, finish_s=2.0, engine_ticket=None, check=lambda: None
        )
        self.submitted.append((data, call, stream, timeout_s))
        self._settled.put(ticket)
        return ticket

    def next_done(self, timeout_s):
        with contextlib.suppress(queue.Empty):
            return self._settled.get(timeout=min(timeout_s, 0.01))

    def join(self, ticket, stream):
        self.joined.append(stream)

    def close(self, timeout_s):
        pass


class Torch:
    """torch.cuda as one GPU more than this machine has."""

    def __init__(self, monkeypatch):
        self.current = threading.local()
        self.devices, self.made_for, self.completed_on = {}, [], []
        future = torch.futures.Future
        initialise, complete = future.__init__, future.set_result

        def initialise_without_gpu(made, *, devices=None):
            self.made_for.append(devices)
            initialise(made)

        def note_and_complete(completed, value):
            self.completed_on.append(self.stream_now())
            complete(completed, value)

        @contextlib.contextmanager
        def stream(entered):
            before, self.current.stream = self.stream_now(), entered.cuda_stream
            yield
            self.current.stream = before

        def set_device(device):
            self.devices[threading.current_thread().name] = device

        monkeypatch.setattr(future, "__init__", initialise_without_gpu)
        monkeypatch.setattr(future, "set_result", note_and_complete)
        monkeypatch.setattr(torch.cuda, "Stream", lambda _: SimpleNamespace(cuda_stream=SIDE))
        monkeypatch.setattr(torch.cuda, "stream", stream)
        monkeypatch.setattr(torch.cuda, "set_device", set_device)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: GPU.index)
        monkeypatch.setattr(
            torch.cuda,
            "current_stream",
            lambda device: SimpleNamespace(cuda_stream=self.stream_now() if device == GPU else -1),
        )

    def stream_now(self):
        return getattr(self.current, "stream", CALLERS)


@pytest.fixture(name="fake")
def fake_fixture(monkeypatch):
    return Torch(monkeypatch)


@pytest.fixture(name="calls")
def calls_fixture(fake):
    made = GpuCalls(Native(), GPU)
    yield made
    made.close(TIMEOUT_S)
    assert not made._thread.is_alive()


def test_a_future_completes_on_a_stream_that_waits_for_the_result(calls, fake):
    tensor = torch.ones(3)
    ticket, future = calls.submit(tensor, "call", TIMEOUT_S)

    assert future.wait() is tensor
    assert calls.native.submitted == [(tensor.data_ptr(), "call", CALLERS, TIMEOUT_S)]
    assert fake.made_for == [[GPU]]  # torch refuses devices without an index
    assert calls.native.joined == fake.completed_on == [SIDE]
    assert fake.devices == {"patallreduce-gpu": GPU}

    on_gpu = SimpleNamespace(device=GPU)
    GpuWork(calls.native, ticket, future, on_gpu).wait()
    assert calls.native.joined[1:] == [CALLERS]


def test_no_future_is_left_open_where_cuda_fails(calls, fake, monkeypatch):
    @contextlib.contextmanager
    def broken(_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "stream", broken)
        _, future = calls.submit(torch.ones(3), "call", TIMEOUT_S)
        with pytest.raises(RuntimeError, match="illegal memory access"):
            future.wait()  # where the thread were dead this would be for ever

    _, future = calls.submit(torch.ones(3), "call", TIMEOUT_S)
    assert future.wait().tolist() == [1, 1, 1]


def test_what_fails_after_ranks_have_called_alike_is_raised_by_the_future(calls, monkeypatch):
    def broken(ticket, stream):
        raise TransportError("NCCL: rank 1: remote process exited")

    with monkeypatch.context() as patch:
        patch.setattr(calls.native, "join", broken)
        _, future = calls.submit(torch.ones(3), "call", TIMEOUT_S)
        with pytest.raises(RuntimeError, match="TransportError: NCCL: rank 1: remote process"):
            future.wait()


@pytest.mark.usefixtures("fake")
def test_the_current_gpu_is_the_one_of_its_number(monkeypatch):
    gpus = Gpus(None, None, "nccl", TIMEOUT_S)
    monkeypatch.setattr(gpus, "_make", lambda device: (device, Native()))

    made = gpus.of(torch.device("cuda"))

    assert made.device == GPU
    assert gpus.of(GPU) is made
