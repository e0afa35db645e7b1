"""The hook registered in torch's own way: with a state, with a process group, or with None."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce.hooks.of_groups import known_state
from tests.hooks.models import assert_equal_on_all_ranks, batch, gradients, mlp


def same_twice(model=mlp, **ddp_arguments):
    torch.manual_seed(0)
    modules = model(), model()
    modules[1].load_state_dict(modules[0].state_dict())
    return [DistributedDataParallel(m, **ddp_arguments) for m in modules]


def assert_averages(plain, ours, iterations=range(3)):
    for i in iterations:
        for ddp_model in (plain, ours):
            ddp_model.zero_grad()
            ddp_model(batch("mlp", dist.get_rank(), i)).square().sum().backward()
        torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
        assert_equal_on_all_ranks(gradients(ours))


def test_a_state_needs_no_process_group():
    assert not dist.is_initialized()
    state = pat.hooks.State(algorithm="slt", arrivals_s=[0.0, 0.5])
    state.release()
    assert state.algorithm == "slt"


def meets_in_the_first_bucket():
    """Frameworks make states before groups, and some ranks later than others."""
    plain, ours = same_twice()
    state = pat.hooks.State(timeout_s=20)
    ours.register_comm_hook(state, pat.hooks.allreduce_hook)
    assert state.averager is None
    assert_averages(plain, ours)
    assert state.averager is not None
    assert state.device == torch.device("cpu")
    communicator = state.communicator
    state.release()
    assert not communicator.usable


def test_ranks_meet_in_the_first_bucket(processes):
    processes.run(2, meets_in_the_first_bucket)


def bad_settings():
    (_, ours) = same_twice()
    state = pat.hooks.State(algorithm="rong", timeout_s=20)
    ours.register_comm_hook(state, pat.hooks.allreduce_hook)
    with pytest.raises(pat.ScheduleError, match="'rong'"):
        ours(batch("mlp", 0, 0)).sum().backward()
    assert state.averager is None


def test_bad_settings_are_told_in_the_first_bucket(processes):
    processes.run(2, bad_settings)


def in_place_of_a_state(wants_group):
    """Several models, each with buckets of its own, and all closed with their models."""
    group = dist.new_group() if wants_group else None
    pairs = [same_twice(bucket_cap_mb=0.1, process_group=group) for _ in range(2)]
    states = []
    for plain, ours in pairs:
        ours.register_comm_hook(group, pat.hooks.allreduce_hook)
        assert_averages(plain, ours, range(2))
        states.append(known_state(ours.parameters()))
    for plain, ours in pairs:
        assert_averages(plain, ours)
        assert len({known_state([p]) for p in ours.parameters()}) == 1
    assert states[0] is not states[1]
    communicator = states[0].communicator
    assert communicator is states[1].communicator
    assert communicator.stats()
    left = [weakref.ref(state) for state in states]
    del plain, states
    pairs.pop(0)
    del ours
    gc.collect()
    assert left[0]() is None
    assert left[1]() is not None
    assert communicator.usable, "the other model uses it"
    pairs.clear()
    gc.collect()
    assert left[1]() is None
    assert not communicator.usable


@pytest.mark.parametrize("wants_group", [False, True])
def test_none_or_a_process_group_in_place_of_a_state(processes, wants_group):
    processes.run(2, in_place_of_a_state, wants_group)


@pytest.mark.usefixtures("group_of_one")
def test_several_buckets_in_the_first_pass():
    # DDP that looks for unused parameters has several at once; else one until it rebuilds.
    ours = DistributedDataParallel(mlp(512, 4), bucket_cap_mb=1, find_unused_parameters=True)
    ours.register_comm_hook(None, pat.hooks.allreduce_hook)
    ours(torch.ones(1, 512)).sum().backward()
    (state,) = {known_state([p]) for p in ours.parameters()}
    assert len(state.communicator.stats()) > 1


def half_of_the_ranks():
    rank = dist.get_rank()
    mine = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    plain, ours = same_twice(process_group=mine)
    ours.register_comm_hook(mine, pat.hooks.allreduce_hook)
    for ddp_model in (plain, ours):
        ddp_model(batch("mlp", rank, 0)).square().sum().backward()
    torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
    assert known_state(ours.parameters()).communicator.ranks == 2


def test_the_process_group_given_is_averaged_over(processes):
    processes.run(4, half_of_the_ranks)


def both_in_one_pass():
    """Each state sees its own model's buckets, also in a pass in which both are new."""
    plain, ours = [], []
    for seed in range(2):
        for models in (plain, ours):
            torch.manual_seed(seed)
            models.append(DistributedDataParallel(mlp(), bucket_cap_mb=0.1))
    for ddp_model in ours:
        ddp_model.register_comm_hook(None, pat.hooks.allreduce_hook)
    for i in range(3):
        for models in (plain, ours):
            for ddp_model in models:
                ddp_model.zero_grad()
            x = batch("mlp", dist.get_rank(), i)
            models[1](models[0](x)).square().sum().backward()
        for a, b in zip(plain, ours, strict=True):
            torch.testing.assert_close(gradients(b), gradients(a), rtol=1e-5, atol=1e-6)
    assert len({known_state([p]) for m in ours for p in m.parameters()}) == 2


def test_two_models_in_one_backward_pass(processes):
    processes.run(2, both_in_one_pass)


def anew_after_a_failure():
    rank = dist.get_rank()
    (_, ours) = same_twice()
    ours.register_comm_hook(None, pat.hooks.allreduce_hook)
    ours(batch("mlp", rank, 0)).sum().backward()
    failed = known_state(ours.parameters()).communicator
    dist.barrier()
    if rank == 1:
        failed.session.abort("the reason")
    with pytest.raises(pat.TransportError, match="the reason"):
        ours(batch("mlp", rank, 0)).sum().backward()
    module = ours.module
    del ours
    plain = DistributedDataParallel(nn.Sequential(*mlp()))
    plain.module.load_state_dict(module.state_dict())
    again = DistributedDataParallel(module)
    again.register_comm_hook(None, pat.hooks.allreduce_hook)
    assert_averages(plain, again)
    assert known_state(module.parameters()).communicator is not failed


def test_a_new_ddp_of_the_module_meets_anew_after_a_failure(processes):
    processes.run(2, anew_after_a_failure)


def replicated():
    from torch.distributed._composable import replicate

    plain, _ = same_twice()
    torch.manual_seed(0)
    module = replicate(mlp())
    with pytest.raises(TypeError, match=r"module.register_comm_hook\(pat.hooks.State\(\), "):
        pat.register(module)
    state = pat.hooks.State(timeout_s=20)
    module.register_comm_hook(state, pat.hooks.allreduce_hook)
    assert_averages(plain, module)
    assert state.communicator.stats()
    state.release()


@pytest.mark.filterwarnings("ignore")
def test_what_register_says_of_composable_replicate(processes):
    processes.run(2, replicated)
