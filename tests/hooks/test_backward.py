"""A backward pass that fails: how soon, with which error, and what is left of it."""

import copy
import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from tests.hooks.models import batch, mlp
from tests.processes import LINK

SIGNAL_AFTER_S = 0.5


def of_several_buckets(view=False):
    return DistributedDataParallel(mlp(), bucket_cap_mb=0.1, gradient_as_bucket_view=view)


def train_until_rebuilt(ddp_model):
    for i in range(3):
        ddp_model(batch("mlp", dist.get_rank(), i)).sum().backward()
    dist.barrier()


class Terminated(SystemExit):
    pass


def interrupted(number, leaves):
    """Rank 1 makes no backward pass; rank 0 gets a signal in its own."""
    ddp_model = of_several_buckets()
    handle = pat.register(ddp_model, timeout_s=20, leaves=leaves, link=LINK)
    rank = dist.get_rank()
    if leaves is None:
        train_until_rebuilt(ddp_model)
    dist.barrier()
    if rank == 1:
        dist.barrier()
        with pytest.raises(pat.TransportError, match="rank 0 aborted: interrupted") as raised:
            handle.communicator.all_reduce(torch.ones(1))
        assert raised.value.rank == 0
        return

    def terminate(*_):
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    threading.Timer(SIGNAL_AFTER_S, os.kill, (os.getpid(), number)).start()
    start_s = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else Terminated):
            if leaves is None:
                ddp_model(batch("mlp", rank, 3)).sum().backward()
            else:
                ddp_model.zero_grad()
                for _ in handle.leaves:
                    ddp_model(batch("mlp", rank, 3)).sum().backward()
    finally:
        signal.signal(signal.SIGTERM, before)
    took_s = time.monotonic() - start_s
    assert SIGNAL_AFTER_S <= took_s < SIGNAL_AFTER_S + 3
    assert all(p.grad is None for p in ddp_model.parameters())
    dist.barrier()


@pytest.mark.parametrize("leaves", [None, 4])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_backward_pass(processes, number, leaves):
    processes.run(2, interrupted, number, leaves)


def fails(view, monitor):
    """Rank 1 comes with other settings: the backward of both ends with the one error."""
    ddp_model = of_several_buckets(view)
    handle = pat.register(ddp_model, timeout_s=20, monitor=monitor, algorithm="ring", segments=2)
    rank = dist.get_rank()
    train_until_rebuilt(ddp_model)
    ddp_model.zero_grad()
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1, weight_decay=0.1)
    weights = copy.deepcopy(ddp_model.module.state_dict())
    handle.state.segments = 2 + rank
    with pytest.raises(pat.MismatchError) as raised:
        ddp_model(batch("mlp", rank, 3)).sum().backward()
    optimizer.step()
    assert all(map(torch.equal, weights.values(), ddp_model.module.state_dict().values()))

    with pytest.raises(pat.MismatchError) as again:  # not DDP's advice on unused parameters
        ddp_model(batch("mlp", rank, 4))
    assert str(again.value) == str(raised.value)
    with torch.no_grad():
        ddp_model(batch("mlp", rank, 4))
    copied = copy.deepcopy(ddp_model.module)
    handle.close()

    again = DistributedDataParallel(copied)
    handle = pat.register(again, timeout_s=20, link=LINK)
    again(batch("mlp", rank, 4)).sum().backward()
    handle.close()
    return str(raised.value)


@pytest.mark.parametrize("monitor", [False, True])
@pytest.mark.parametrize("view", [False, True])
def test_nothing_of_a_failed_pass_reaches_the_optimizer(processes, view, monitor):
    first, second = processes.run(2, fails, view, monitor)
    assert first == second


def fails_by_hand():
    ddp_model = of_several_buckets()
    state = pat.hooks.State(timeout_s=20, algorithm="ring", segments=2)
    ddp_model.register_comm_hook(state, pat.hooks.allreduce_hook)
    rank = dist.get_rank()
    train_until_rebuilt(ddp_model)
    state.segments = 2 + rank
    with pytest.raises(pat.MismatchError):
        ddp_model(batch("mlp", rank, 3)).sum().backward()
    state.release()


def test_a_hook_registered_by_hand_raises_alike(processes):
    processes.run(2, fails_by_hand)
