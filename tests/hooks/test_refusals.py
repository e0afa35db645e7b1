"""What `register` cannot take: who holds the hook, what is no DDP model, and what to do instead."""

import contextlib
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import fsdp
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_local_sgd
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from tests.hooks.models import batch, gradients, mlp


def mixed_precision():
    # Without an accelerator there are no streams; DDP makes one as it registers its hook.
    config = torch.nn.parallel.distributed._MixedPrecision(param_dtype=torch.bfloat16)
    with mock.patch.object(torch, "Stream", contextlib.nullcontext):
        return DistributedDataParallel(mlp(), mixed_precision=config)


def post_local():
    ddp_model = DistributedDataParallel(mlp())
    state = post_local_sgd.PostLocalSGDState(None, None, start_localSGD_iter=10)
    ddp_model.register_comm_hook(state, post_local_sgd.post_localSGD_hook)
    return ddp_model


def refused_first():
    """Torch's list has the hook that it refused, too."""
    ddp_model = post_local()
    with pytest.raises(RuntimeError, match="only be called once"):
        ddp_model.register_comm_hook(None, pat.hooks.allreduce_hook)
    return ddp_model


def built_in():
    ddp_model = DistributedDataParallel(mlp())
    ddp_model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    return ddp_model


def optimizer_in_backward():
    from torch.distributed.optim import _apply_optimizer_in_backward  # warns at import

    model = mlp()
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1})
    return DistributedDataParallel(model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(
    ("model_of", "match"),
    [
        (mixed_precision, r"is _reducer_allreduce_and_upcast_hook.*mixed_precision=.*autocast"),
        (post_local, r"is post_localSGD_hook.*new DistributedDataParallel\(model.module\)"),
        (refused_first, r"is post_localSGD_hook"),
        (built_in, r"is BuiltinCommHookType.FP16_COMPRESS"),
        (optimizer_in_backward, r"_apply_optimizer_in_backward.*call optimizer.step\(\)"),
    ],
)
def test_who_holds_the_hook(model_of, match):
    with pytest.raises(RuntimeError, match=match):
        pat.register(model_of(), timeout_s=20)


@pytest.mark.usefixtures("group_of_one")
def test_registered_twice():
    ddp_model = DistributedDataParallel(mlp())
    handle = pat.register(ddp_model, timeout_s=20)
    with pytest.raises(RuntimeError, match=r"is patallreduce's already.*Handle.close\(\) first"):
        pat.register(ddp_model, timeout_s=20)
    ddp_model(batch("mlp", 0, 0)).sum().backward()
    handle.close()
    assert not handle.communicator.usable, "the refused registration holds nothing"


class Wrapper(nn.Module):
    def __init__(self, *modules):
        super().__init__()
        self.inner = nn.ModuleList(modules)


def fully_sharded():
    return fsdp.fully_shard(mlp())


def fully_sharded_in_the_old_way():
    return fsdp.FullyShardedDataParallel(mlp(), device_id=torch.device("cpu"))


def replicated_by_fsdp():
    from torch.distributed._composable.replicate_with_fsdp import replicate

    return replicate(mlp())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(
    ("model_of", "match"),
    [
        (mlp, r"got Sequential: register\(DistributedDataParallel\(module\)\)"),
        (lambda: torch.compile(mlp()), r"got OptimizedModule: register\(Distributed"),
        (lambda: 3, "got int$"),
        (lambda: nn.DataParallel(mlp()), "got DataParallel: it is one process for several GPUs"),
        (fully_sharded, "got FSDPSequential: fully sharded"),
        (fully_sharded_in_the_old_way, "got FullyShardedDataParallel: fully sharded"),
        (replicated_by_fsdp, "got ReplicateSequential: fully sharded"),
        (
            lambda: Wrapper(*(DistributedDataParallel(mlp()) for _ in range(2))),
            r"got Wrapper: it has several inside: register each of inner.0, inner.1",
        ),
    ],
)
def test_what_is_no_ddp_model(model_of, match):
    with pytest.raises(TypeError, match=match):
        pat.register(model_of())


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize("wrap", [Wrapper, torch.compile, lambda m: Wrapper(torch.compile(m))])
def test_the_only_ddp_model_inside_is_registered(wrap):
    ddp_model = DistributedDataParallel(mlp())
    handle = pat.register(wrap(ddp_model), timeout_s=20)
    ddp_model(batch("mlp", 0, 0)).sum().backward()
    assert handle.communicator.stats()
    handle.close()


def compiled():
    torch.manual_seed(0)
    plain, ours = (DistributedDataParallel(mlp()) for _ in range(2))
    ours.module.load_state_dict(plain.module.state_dict())
    faster = torch.compile(ours, backend="aot_eager")
    handle = pat.register(faster, timeout_s=60)
    for i in range(2):
        for ddp_model in (plain, faster):
            ddp_model.zero_grad()
            ddp_model(batch("mlp", dist.get_rank(), i)).square().sum().backward()
        torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-5, atol=1e-6)
    assert handle.communicator.stats()
    handle.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_ddp_model_is_registered(processes):
    processes.run(2, compiled, timeout_s=200)
