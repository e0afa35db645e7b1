"""What cannot be: said clearly, with its own class, on every rank; nobody hangs."""

import logging
import pickle
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from tests.hooks.models import TiedEmbedding, batch, mlp
from tests.processes import LINK, RankDiedError


def train_until_rebuilt(ddp_model):
    """Later iterations have no traffic of DDP's own, only the hook's."""
    for i in range(3):
        ddp_model(batch("mlp", dist.get_rank(), i)).sum().backward()
    dist.barrier()


def bad_arguments():
    ddp_model = DistributedDataParallel(mlp())
    for arguments, error, match in (
        ({"algorithm": "rong"}, pat.ScheduleError, "'rong'"),
        ({"arrivals_s": [0.0]}, pat.ScheduleError, "expected 2 times"),
        ({"arrivals_s": [0.0, float("nan")]}, pat.ScheduleError, "got nan for rank 1"),
        ({"segments": 0}, pat.ScheduleError, "got 0"),
        ({"timeout_s": -1.0}, ValueError, "timeout_s"),
        ({"transport": "smoke"}, ValueError, "'smoke'"),
        ({"reproducible": True, "algorithm": "ring"}, ValueError, "reproducible.*got 'ring'"),
    ):
        with pytest.raises(error, match=match):
            pat.register(ddp_model, **({"timeout_s": 20.0} | arguments))
    handle = pat.register(ddp_model, timeout_s=20, link=LINK)  # the refusals left nothing behind
    ddp_model(batch("mlp", dist.get_rank(), 0)).sum().backward()
    handle.close()


def test_bad_arguments_are_refused_by_register(processes):
    processes.run(2, bad_arguments)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def forward(self, x):
        return (self.weight * x).abs()


def complex_parameters():
    ddp_model = DistributedDataParallel(Complex())
    with pytest.raises(TypeError, match=r"parameter weight: .*torch\.complex64"):
        pat.register(ddp_model, timeout_s=20, link=LINK)


def test_complex_parameters_are_refused_by_register(processes):
    processes.run(2, complex_parameters)


def sparse_gradients(by_hand):
    ddp_model = DistributedDataParallel(TiedEmbedding(sparse=True))
    if by_hand:
        state = pat.hooks.State(timeout_s=5)
        ddp_model.register_comm_hook(state, pat.hooks.allreduce_hook)
    else:
        pat.register(ddp_model, timeout_s=5)
    with pytest.raises(TypeError, match=r"sparse"):
        ddp_model(batch("embedding", dist.get_rank(), 0)).sum().backward()


@pytest.mark.parametrize("by_hand", [False, True])
def test_sparse_gradients_are_refused(processes, by_hand):
    processes.run(2, sparse_gradients, by_hand)


def skips_a_backward(absent):
    """The absent rank runs no backward: the others' raises, with its class and the rank's name."""
    ddp_model = DistributedDataParallel(mlp())
    handle = pat.register(ddp_model, timeout_s=2)
    rank = dist.get_rank()
    train_until_rebuilt(ddp_model)
    if rank == absent:
        dist.barrier()
        with pytest.raises(pat.TransportTimeout, match=f"rank {absent} had not called it"):
            ddp_model(batch("mlp", rank, 1)).sum().backward()
    else:
        start_s = time.monotonic()
        with pytest.raises(pat.TransportTimeout, match="bucket 0") as raised:
            ddp_model(batch("mlp", rank, 1)).sum().backward()
        assert time.monotonic() - start_s > 1.9
        assert "within 2 s on rank" in str(raised.value)
        assert f"rank {absent} had not called it" in str(raised.value)
        dist.barrier()
    handle.close()
    # A new model on the same group gets a new communicator.
    again = DistributedDataParallel(mlp())
    handle = pat.register(again, timeout_s=10)
    again(batch("mlp", rank, 0)).sum().backward()
    handle.close()


@pytest.mark.parametrize("absent", [0, 2])
def test_a_rank_without_a_backward_pass(processes, absent):
    processes.run(3, skips_a_backward, absent)


def gives_up(odd_rank):
    ddp_model = DistributedDataParallel(mlp(), bucket_cap_mb=0.1)
    handle = pat.register(ddp_model, timeout_s=20, link=LINK)
    rank = dist.get_rank()
    train_until_rebuilt(ddp_model)
    if rank == odd_rank:
        with pytest.raises(KeyError), handle.communicator:
            raise KeyError("the reason")
    else:
        with pytest.raises(pat.TransportError) as raised:
            ddp_model(batch("mlp", rank, 1)).sum().backward()
        assert f"rank {odd_rank} aborted: KeyError: 'the reason'" in str(raised.value)
    dist.barrier()
    handle.close()


def test_a_rank_that_gives_up_ends_the_others_backward(processes):
    processes.run(3, gives_up, 1)


def dies(odd_rank):
    ddp_model = DistributedDataParallel(mlp())
    handle = pat.register(ddp_model, timeout_s=20, link=LINK)
    rank = dist.get_rank()
    train_until_rebuilt(ddp_model)
    if rank == odd_rank:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(pat.PeerLostError) as raised:
        ddp_model(batch("mlp", rank, 1)).sum().backward()
    assert raised.value.rank == odd_rank
    handle.close()


def test_a_killed_rank_ends_the_others_backward(processes):
    outcomes = processes.outcomes(3, dies, 1)
    assert isinstance(outcomes.pop(1).error, RankDiedError)
    assert outcomes == [None, None]


def different_models():
    """More elements on rank 1: DDP itself would find out, so the check of shapes is bypassed."""
    ddp_model = DistributedDataParallel(nn.Linear(4, 4), process_group=dist.group.WORLD)
    handle = pat.register(ddp_model, algorithm="ring", segments=2, timeout_s=10, link=LINK)
    hook = pat.hooks.allreduce_hook
    assert hook.__name__ == "allreduce_hook"
    handle.state.segments = 2 + dist.get_rank()  # the settings differ, as by a user's mistake
    with pytest.raises(pat.MismatchError) as raised:
        ddp_model(torch.ones(4)).sum().backward()
    assert "with 2 segments" in str(raised.value)
    assert "with 3 segments" in str(raised.value)
    handle.close()


def test_different_settings_on_two_ranks_end_the_backward_of_both(processes):
    processes.run(2, different_models)


def after_close():
    ddp_model = DistributedDataParallel(mlp())
    handle = pat.register(ddp_model, timeout_s=10, link=LINK)
    ddp_model(batch("mlp", dist.get_rank(), 0)).sum().backward()
    handle.close()
    with pytest.raises(pat.TransportError, match=r"closed"):
        ddp_model(batch("mlp", dist.get_rank(), 0)).sum().backward()


def test_a_backward_after_close_is_refused(processes):
    processes.run(2, after_close)


def python_reducer():
    state = pat.hooks.State(timeout_s=10)
    weight = torch.ones(3)
    with pytest.raises(TypeError, match=r"expected a GradBucket, got tuple; set torch._dynamo"):
        pat.hooks.allreduce_hook(state, (weight, weight))
    state.release()


def test_the_python_reducer_of_torch_compile_is_refused(processes):
    processes.run(2, python_reducer)


def pickles(tmp_path):
    """A state travels without its communicator, and says so when it makes a new one."""
    settings = {"algorithm": "slt", "arrivals_s": [0.0, 0.5], "segments": 3, "timeout_s": 20.0}
    state = pat.hooks.State(**settings)
    warnings = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("patallreduce").addHandler(handler)
    torch.save(state, tmp_path := f"{tmp_path}/{dist.get_rank()}")
    for load in (
        lambda: pickle.loads(pickle.dumps(state)),
        lambda: torch.load(tmp_path, weights_only=False),
    ):
        loaded = load()
        assert {name: getattr(loaded, name) for name in settings} == settings
        assert "does not carry its process group" in warnings.pop()
        assert not warnings
        ddp_model = DistributedDataParallel(mlp())
        ddp_model.register_comm_hook(loaded, pat.hooks.allreduce_hook)
        ddp_model(batch("mlp", dist.get_rank(), 0)).sum().backward()
        loaded.release()
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path)
    state.release()


def test_state_pickles(processes, tmp_path):
    processes.run(2, pickles, str(tmp_path))
