"""The hook in every situation DDP puts one into: gradients as plain DDP's, nobody hangs."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from tests.hooks.models import (
    assert_equal_on_all_ranks,
    batch,
    flat,
    gradients,
    mlp,
    model_and_batch,
)
from tests.processes import LINK

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}  # another order of summation


def pair(model, **ddp_arguments):
    """The same model twice: with plain DDP, and with the hook."""
    torch.manual_seed(0)
    modules = model(), model()
    modules[1].load_state_dict(modules[0].state_dict())
    plain, ours = (DistributedDataParallel(m, **ddp_arguments) for m in modules)
    return plain, ours, pat.register(ours, algorithm="ring", timeout_s=20, link=LINK)


def assert_same_gradients(plain, ours):
    torch.testing.assert_close(gradients(ours), gradients(plain), **TOLERANCE)
    assert_equal_on_all_ranks(gradients(ours))


def step(ddp_models, *inputs):
    for ddp_model in ddp_models:
        ddp_model.zero_grad()
        ddp_model(*inputs).square().sum().backward()


def bucket_rebuild(ddp_arguments):
    plain, ours, handle = pair(mlp, bucket_cap_mb=0.1, **ddp_arguments)
    buckets = []
    for i in range(5):
        seen = len(handle.communicator.stats())
        step((plain, ours), batch("mlp", dist.get_rank(), i))
        assert_same_gradients(plain, ours)
        buckets.append(len(handle.communicator.stats()) - seen)
    handle.close()
    return buckets


@pytest.mark.parametrize(
    ("ddp_arguments", "rebuilt_after"),
    [
        ({}, 1),
        ({"gradient_as_bucket_view": True}, 1),
        ({"static_graph": True}, 2),
        ({"static_graph": True, "gradient_as_bucket_view": True}, 2),
    ],
)
def test_buckets_are_rebuilt(processes, ddp_arguments, rebuilt_after):
    for buckets in processes.run(2, bucket_rebuild, ddp_arguments):
        assert buckets[:rebuilt_after] != buckets[rebuilt_after:][:rebuilt_after]
        assert len(set(buckets[rebuilt_after:])) == 1
        assert buckets[-1] > 1


class Branches(nn.Module):
    """Uses one of two layers, by rank."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x, which):
        return self.layers[2](self.layers[which](x))


def unused_parameters(cap_mb):
    plain, ours, handle = pair(Branches, find_unused_parameters=True, bucket_cap_mb=cap_mb)
    rank = dist.get_rank()
    for i in range(6):
        # By rank, by turns, and some parameters on no rank at all.
        which = [rank % 2, (rank + i) % 2, 0][i % 3]
        step((plain, ours), torch.full((2, 8), float(rank + i)), which)
        assert_same_gradients(plain, ours)
    handle.close()


@pytest.mark.parametrize("cap_mb", [25, 0.0001])
def test_unused_parameters(processes, cap_mb):
    processes.run(2, unused_parameters, cap_mb)


def accumulation(ddp_arguments):
    plain, ours, handle = pair(mlp, **ddp_arguments)
    rank = dist.get_rank()
    for i in range(3):
        seen = len(handle.communicator.stats())
        for ddp_model in (plain, ours):
            ddp_model.zero_grad()
            with ddp_model.no_sync():
                for j in range(2):
                    ddp_model(batch("mlp", rank, 10 * i + j)).square().sum().backward()
            if ddp_model is ours:
                assert len(handle.communicator.stats()) == seen, "no_sync communicates nothing"
            ddp_model(batch("mlp", rank, 10 * i + 2)).square().sum().backward()
        assert len(handle.communicator.stats()) > seen
        assert_same_gradients(plain, ours)
    handle.close()


@pytest.mark.parametrize("ddp_arguments", [{}, {"gradient_as_bucket_view": True}])
def test_no_sync_accumulates(processes, ddp_arguments):
    processes.run(2, accumulation, ddp_arguments)


def uneven(extra_per_rank):
    """Rank r has 2 + r * extra batches; the others join in with zeros."""
    plain, ours, handle = pair(mlp, bucket_cap_mb=0.1)
    rank = dist.get_rank()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (plain, ours)]
    for ddp_model, optimizer in zip((plain, ours), optimizers, strict=True):
        with Join([ddp_model]):
            for i in range(2 + rank * extra_per_rank):
                ddp_model.zero_grad()
                ddp_model(batch("mlp", rank, i)).square().sum().backward()
                optimizer.step()
    torch.testing.assert_close(flat(ours), flat(plain), **TOLERANCE)
    calls = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(calls, torch.tensor([float(len(handle.communicator.stats()))]))
    assert calls[0] == calls[-1], "joined ranks shadow the hook's calls"
    handle.close()


@pytest.mark.parametrize("extra_per_rank", [1, 3])
def test_join_with_uneven_inputs(processes, extra_per_rank):
    processes.run(3, uneven, extra_per_rank)


def several_models():
    """Two models share a communicator; it closes with the last of them."""
    first = pair(mlp, bucket_cap_mb=0.1)
    second = pair(lambda: nn.Linear(128, 3))
    assert first[2].communicator is second[2].communicator
    rank = dist.get_rank()
    for i in range(4):
        for plain, ours, _ in (first, second) if i % 2 else (second, first):
            step((plain, ours), batch("mlp", rank, i))
            assert_same_gradients(plain, ours)
    communicator = first[2].communicator
    first[2].close()
    first[2].close()
    assert communicator.usable
    step(second[:2], batch("mlp", rank, 9))
    assert_same_gradients(*second[:2])
    second[2].close()
    assert not communicator.usable
    third = pair(lambda: nn.Linear(128, 3))
    assert third[2].communicator is not communicator
    step(third[:2], batch("mlp", rank, 9))
    assert_same_gradients(*third[:2])
    third[2].close()


def test_several_models_share_a_communicator(processes):
    processes.run(2, several_models)


def several_groups():
    """Two halves train models of their own, then all train one."""
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = groups[rank // 2]
    half = pair(mlp, process_group=mine)
    whole = pair(lambda: nn.Linear(128, 3))
    assert half[2].communicator.ranks == 2
    assert whole[2].communicator.ranks == 4
    for i in range(3):
        for plain, ours, _ in (half, whole):
            step((plain, ours), batch("mlp", rank, i))
            torch.testing.assert_close(gradients(ours), gradients(plain), **TOLERANCE)
    assert_equal_on_all_ranks(gradients(whole[1]))
    for _, _, handle in (half, whole):
        handle.close()


def test_several_process_groups(processes):
    processes.run(4, several_groups)


def sizes(model, cap_mb):
    plain, ours, handle = pair(model, bucket_cap_mb=cap_mb)
    for i in range(3):
        step((plain, ours), torch.full((2, 4), float(dist.get_rank() + i)))
        assert_same_gradients(plain, ours)
    seen = len(handle.communicator.stats())
    handle.close()
    return seen


def one_weight():
    return nn.Linear(4, 1, bias=False)


def many_tiny_layers():
    return nn.Sequential(*[nn.Linear(4, 4) for _ in range(30)])


def two_dtypes():
    return nn.Sequential(nn.Linear(4, 4), ToDouble(), nn.Linear(4, 4).double())


class ToDouble(nn.Module):
    def forward(self, x):
        return x.double()


@pytest.mark.parametrize(
    ("model", "cap_mb", "least_calls"),
    [(one_weight, 25, 3), (many_tiny_layers, 0.00001, 3 * 20), (two_dtypes, 25, 6)],
)
def test_buckets_of_every_size(processes, model, cap_mb, least_calls):
    assert all(calls >= least_calls for calls in processes.run(3, sizes, model, cap_mb))


def alone():
    plain, ours, handle = pair(mlp)
    step((plain, ours), batch("mlp", 0, 0))
    assert torch.equal(gradients(ours), gradients(plain))
    handle.close()


def test_one_rank(processes):
    processes.run(1, alone)


def by_another_name(wrapped):
    def hook(state, bucket):
        return wrapped(state, bucket)

    return hook


def compressed(wrapper, dtype):
    """Through 16 bits and back: what the wrapper does with torch's own all-reduce."""
    torch.manual_seed(0)
    modules = mlp(), mlp()
    modules[1].load_state_dict(modules[0].state_dict())
    plain, ours = (DistributedDataParallel(m, bucket_cap_mb=0.1) for m in modules)
    state = pat.hooks.State(algorithm="ring", timeout_s=20, link=LINK)
    for ddp_model, hook_state, hook in (
        (plain, None, default_hooks.allreduce_hook),
        (ours, state, pat.hooks.allreduce_hook),
    ):
        wrapped = wrapper(hook)
        if wrapper is default_hooks.bf16_compress_wrapper:  # refused by name on some builds
            wrapped = by_another_name(wrapped)
        ddp_model.register_comm_hook(hook_state, wrapped)
    for i in range(3):
        step((plain, ours), batch("mlp", dist.get_rank(), i))
        eps = torch.finfo(dtype).eps
        scale = float(gradients(plain).abs().max())
        torch.testing.assert_close(
            gradients(ours), gradients(plain), rtol=2 * eps, atol=2 * eps * scale
        )
        assert_equal_on_all_ranks(gradients(ours))
    calls = [record["call"] for record in state.communicator.stats()]
    assert all(str(dtype).removeprefix("torch.") in call for call in calls[-2:])
    state.release()


@pytest.mark.parametrize(
    ("wrapper", "dtype"),
    [
        (default_hooks.fp16_compress_wrapper, torch.float16),
        (default_hooks.bf16_compress_wrapper, torch.bfloat16),
    ],
)
def test_inside_the_compress_wrappers(processes, wrapper, dtype):
    processes.run(3, compressed, wrapper, dtype)


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.skipif(
    torch.xpu.is_available(), reason="there torch asks for XCCL, or for CUDA and NCCL"
)
def test_torch_refuses_its_bf16_wrapper_by_name_where_it_is_built_without_cuda():
    ddp_model = DistributedDataParallel(mlp())
    wrapped = default_hooks.bf16_compress_wrapper(pat.hooks.allreduce_hook)
    if torch.version.cuda is None and torch.version.hip is None:
        with pytest.raises(TypeError, match="BF16 all reduce communication hook required CUDA"):
            ddp_model.register_comm_hook(None, wrapped)
    else:  # the model is on the CPU all the same
        ddp_model.register_comm_hook(None, wrapped)
        ddp_model(batch("mlp", 0, 0)).sum().backward()
        assert gradients(ddp_model).abs().sum() > 0


def compiled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        plain, ours, handle = pair(mlp)
        faster = torch.compile(ours, backend="aot_eager")
        for i in range(3):
            step((plain, faster), batch("mlp", dist.get_rank(), i))
            assert_same_gradients(plain, ours)
    assert handle.communicator.stats()
    handle.close()


@pytest.mark.slow
def test_torch_compile(processes):
    processes.run(2, compiled, timeout_s=200)


def logging_names_the_hook():
    model, inputs = model_and_batch("mlp", dist.get_rank(), 0)
    ddp_model = DistributedDataParallel(model)
    handle = pat.register(ddp_model, timeout_s=20, link=LINK)
    ddp_model(inputs).sum().backward()
    name = ddp_model._get_ddp_logging_data()["comm_hook"]
    handle.close()
    return name


def test_ddp_logs_the_name_of_the_hook(processes):
    assert processes.run(2, logging_names_the_hook) == ["allreduce_hook"] * 2
