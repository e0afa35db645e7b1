"""The same DDP model, registered again: after a close, a failure, another process group."""

import contextlib
import copy
import gc
import io
import os
import signal
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from tests.hooks.models import assert_equal_on_all_ranks, batch, gradients, mlp
from tests.processes import LINK, RankDiedError


class Breakable(nn.Module):
    """Raises in the midst of backward, on request."""

    def __init__(self):
        super().__init__()
        self.first, self.last = mlp(layers=3), mlp(layers=3)
        self.broken = False

    def forward(self, x):
        y = self.first(x)
        if self.broken:
            y.register_hook(self.breaks)
        return self.last(y)

    def breaks(self, _):
        raise ArithmeticError("in the midst of backward")


def same_twice(**ddp_arguments):
    torch.manual_seed(0)
    modules = Breakable(), Breakable()
    modules[1].load_state_dict(modules[0].state_dict())
    return [DistributedDataParallel(m, bucket_cap_mb=0.1, **ddp_arguments) for m in modules]


def assert_averages(plain, ours, iterations=3):
    for i in range(iterations):
        for ddp_model in (plain, ours):
            ddp_model.zero_grad()
            ddp_model(batch("mlp", dist.get_rank(), i)).square().sum().backward()
        torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
        assert_equal_on_all_ranks(gradients(ours))


def closes(_ours, handle):
    handle.close()


def closes_and_tries(ours, handle):
    handle.close()
    with pytest.raises(pat.TransportError, match="closed"):
        ours(batch("mlp", 0, 0)).sum().backward()


def fails(ours, handle):
    handle.state.segments = 2 + dist.get_rank()
    with pytest.raises(pat.MismatchError):
        ours(batch("mlp", 0, 0)).sum().backward()
    with pytest.raises(pat.MismatchError):
        ours(batch("mlp", 0, 0))


def fails_in_the_midst(ours, handle):
    """Rank 1 has averaged some buckets, and will not have others."""
    if dist.get_rank() == 1:
        ours.module.broken = True
        with pytest.raises(ArithmeticError), handle.communicator:
            ours(batch("mlp", 0, 0)).sum().backward()
        ours.module.broken = False
    else:
        with pytest.raises(pat.TransportError, match="in the midst of backward"):
            ours(batch("mlp", 0, 0)).sum().backward()


ENDS = [closes, closes_and_tries, fails, fails_in_the_midst]


def registered_again(ends, ddp_arguments, trains_first, monitor):
    plain, ours = same_twice(**ddp_arguments)
    settings = {"timeout_s": 20, "monitor": monitor, "link": LINK}
    first = pat.register(ours, **settings)
    if trains_first:
        assert_averages(plain, ours)
    ends(ours, first)
    dist.barrier()
    second = pat.register(ours, algorithm="slt", **settings)
    assert second.communicator is not first.communicator
    assert_averages(plain, ours)
    assert all("slt" in record["call"] for record in second.communicator.stats())
    if monitor and dist.get_rank() == 0:
        assert len(second.iterations()) >= 2
    first.close()
    assert second.communicator.usable, "a handle closes its own registration only"
    second.close()
    assert not second.communicator.usable


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(
    "ddp_arguments",
    [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}],
    ids=str,
)
def test_gradients_are_averaged_again(processes, ends, ddp_arguments):
    processes.run(2, registered_again, ends, ddp_arguments, True, False)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("monitor", [False, True])
def test_also_after_the_first_pass(processes, ends, monitor):
    processes.run(2, registered_again, ends, {}, False, monitor)


@pytest.mark.parametrize("ends", [closes, fails])
def test_with_unused_parameters(processes, ends):
    processes.run(2, registered_again, ends, {"find_unused_parameters": True}, True, True)


def other_group(shrinks):
    rank = dist.get_rank()
    plain, ours = same_twice()
    first = pat.register(ours, timeout_s=20, link=LINK)
    assert_averages(plain, ours)
    group = dist.new_group([0, 1] if shrinks else None)
    if shrinks and rank == 2:
        first.close()
        return
    for ddp_model in (plain, ours):
        ddp_model._update_process_group(group)
    with pytest.raises(RuntimeError, match="process group was changed"):
        ours(batch("mlp", rank, 0)).sum().backward()
    second = pat.register(ours, timeout_s=20, link=LINK)
    assert second.communicator.ranks == 2 if shrinks else 3
    for i in range(3):
        for ddp_model in (plain, ours):
            ddp_model.zero_grad()
            ddp_model(batch("mlp", rank, i)).square().sum().backward()
        torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
    second.close()


@pytest.mark.parametrize("shrinks", [False, True])
def test_another_process_group(processes, shrinks):
    processes.run(3, other_group, shrinks)


def a_rank_is_lost():
    rank = dist.get_rank()
    plain, ours = same_twice()
    pat.register(ours, timeout_s=20, link=LINK)
    assert_averages(plain, ours)
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(pat.PeerLostError):
        ours(batch("mlp", rank, 0)).sum().backward()
    group = dist.new_group([0, 1], use_local_synchronization=True)
    for ddp_model in (plain, ours):
        ddp_model._update_process_group(group)
    again = pat.register(ours, timeout_s=20, link=LINK)
    for i in range(3):
        for ddp_model in (plain, ours):
            ddp_model.zero_grad()
            ddp_model(batch("mlp", rank, i)).square().sum().backward()
        torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
    again.close()


def test_those_left_go_on_when_a_rank_is_lost(processes):
    outcomes = processes.outcomes(3, a_rank_is_lost)
    assert isinstance(outcomes.pop(2).error, RankDiedError)
    assert outcomes == [None, None]


def by_hand(state_of):
    plain, ours = same_twice()
    state = state_of()
    ours.register_comm_hook(state, pat.hooks.allreduce_hook)
    assert_averages(plain, ours)
    if state is not None:
        with pytest.raises(RuntimeError, match=r"patallreduce's already.*State.release\(\)"):
            pat.register(ours, timeout_s=20, link=LINK)
        state.release()
    handle = pat.register(ours, timeout_s=20, link=LINK)
    assert_averages(plain, ours)
    assert len(handle.communicator.stats()) >= 3
    fails(ours, handle)
    dist.barrier()
    again = pat.register(ours, timeout_s=20, link=LINK)
    assert_averages(plain, ours)
    again.close()


@pytest.mark.parametrize("state_of", [pat.hooks.State, type(None)])
def test_a_hook_registered_by_hand(processes, state_of):
    processes.run(2, by_hand, state_of)


def to_leaves_and_back():
    plain, ours = same_twice()
    leafy = pat.register(ours, leaves=4, timeout_s=20, link=LINK)
    for i in range(2):
        ours.zero_grad()
        for leaf in leafy.leaves:
            ours(batch("mlp", leaf, i)).square().sum().backward()
    loop = iter(leafy.leaves)
    ours.zero_grad()
    next(loop)
    leafy.close()
    plainly = pat.register(ours, timeout_s=20, link=LINK)
    assert_averages(plain, ours)
    plainly.close()
    again = pat.register(ours, leaves=4, timeout_s=20, link=LINK)
    ours.zero_grad()
    plain.zero_grad()
    for leaf in again.leaves:
        loop.close()  # late, as where an error's traceback has kept it
        ours(batch("mlp", leaf, 0)).square().sum().backward()
        with plain.no_sync() if leaf == again.leaves.mine[0] else contextlib.nullcontext():
            plain(batch("mlp", leaf, 0)).square().sum().div(2).backward()
    torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
    again.close()


def test_with_leaves_and_without(processes):
    processes.run(2, to_leaves_and_back)


def copies():
    """A copy has no hook, though torch's list says so: it is registered as a new model."""
    plain, ours = same_twice()
    handle = pat.register(ours, timeout_s=20, link=LINK)
    assert_averages(plain, ours)
    saved = io.BytesIO()
    torch.save(ours, saved)
    saved.seek(0)
    for copied in (copy.deepcopy(ours), torch.load(saved, weights_only=False)):
        of_copy = pat.register(copied, timeout_s=20, link=LINK, algorithm="slt")
        assert of_copy.state is not handle.state
        assert_averages(plain, copied)
        assert any("slt" in record["call"] for record in of_copy.communicator.stats())
        of_copy.close()
        again = pat.register(copied, timeout_s=20, link=LINK, algorithm="slt")
        assert again.state is of_copy.state
        assert_averages(plain, copied)
        again.close()
    assert_averages(plain, ours)
    handle.close()


@pytest.mark.filterwarnings("ignore")
def test_copies(processes):
    processes.run(2, copies)


def collected():
    _, ours = same_twice()
    handle = pat.register(ours, timeout_s=20, link=LINK)
    ours(batch("mlp", dist.get_rank(), 0)).sum().backward()
    handle.close()
    handle = pat.register(ours, timeout_s=20, link=LINK)
    ours(batch("mlp", dist.get_rank(), 0)).sum().backward()
    communicator = handle.communicator
    left = weakref.ref(ours)
    del ours, handle
    gc.collect()
    assert left() is None
    assert not communicator.usable


def test_a_model_that_is_gone_has_left_its_communicator(processes):
    processes.run(2, collected)
