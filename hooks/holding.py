"""The DDP model in what a user registers, and who holds its communication hook.

DDP takes one hook, for good. Where it is ours and has ended, its state can be given another
averager; where it is another's, only a new DistributedDataParallel helps.
"""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from patallreduce.hooks.ddp import allreduce_hook
from patallreduce.hooks.of_groups import keep, known_state
from patallreduce.hooks.state import State

# By name: importing them takes seconds.
_REPLICATED = {"torch.distributed._composable.replicate.DDP"}
_SHARDED = {
    "torch.distributed.fsdp.FSDPModule",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
}


def ddp_of(module: nn.Module) -> DistributedDataParallel:
    """The model itself, or the only one inside it: torch.compile's and frameworks' wrappers.

    Raises:
        TypeError: there is none, or there are several; what to write instead.
    """
    if isinstance(module, DistributedDataParallel):
        return module
    name = type(module).__name__
    if not isinstance(module, nn.Module):
        raise TypeError(f"expected a DistributedDataParallel, got {name}")
    inside = {n: m for n, m in module.named_modules() if isinstance(m, DistributedDataParallel)}
    if len(inside) == 1:
        return next(iter(inside.values()))
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(module).__mro__}
    if inside:
        instead = f"it has several inside: register each of {', '.join(inside)}"
    elif kinds & _REPLICATED:
        instead = (
            "with pat for patallreduce, and before its first forward pass, "
            "module.register_comm_hook(pat.hooks.State(), pat.hooks.allreduce_hook)"
        )
    elif kinds & _SHARDED:
        instead = (
            "fully sharded modules reduce their gradients themselves and take no such hook: wrap "
            "the module in DistributedDataParallel instead, if it fits into each rank's memory"
        )
    elif isinstance(module, nn.DataParallel):
        instead = (
            "it is one process for several GPUs: start one for each, and there "
            "register(DistributedDataParallel(module))"
        )
    else:
        instead = (
            "register(DistributedDataParallel(module)); where a framework has wrapped the module, "
            "register what it returned"
        )
    raise TypeError(f"expected a DistributedDataParallel, got {name}: {instead}")


def held_state(ddp_model: DistributedDataParallel) -> State | None:
    """The state of our hook on the model, to be given another averager; None: it has no hook.

    Raises:
        RuntimeError: another holds the hook, or ours is in use: who, and what to do.
    """
    if any(hasattr(p, "_in_backward_optimizers") for p in ddp_model.parameters()):
        raise RuntimeError(
            "an optimizer runs inside the backward pass (_apply_optimizer_in_backward), for which "
            "DDP registers a hook of its own: call optimizer.step() after it instead"
        )
    name = ddp_model._get_ddp_logging_data().get("comm_hook")
    if not name:
        # A copy carries the list of the original, and no hook.
        ddp_model._comm_hooks.clear()
        return None
    # The first: torch appends those that it then refuses.
    hook, state = ddp_model._comm_hooks[0] if ddp_model._comm_hooks else (None, None)
    if hook is allreduce_hook and not isinstance(state, State):
        parameters = list(ddp_model.module.parameters())
        given = known_state(parameters) or State()
        keep(given, parameters)
        return given  # nobody else can close it
    if not isinstance(state, State):
        name = getattr(hook, "__qualname__", name)
        raise RuntimeError(
            f"the communication hook of this model is {name}, and DDP takes one, for good: "
            + (
                "leave out DistributedDataParallel(mixed_precision=...), which registers it; "
                "torch.autocast works"
                if ddp_model.mixed_precision is not None
                else "leave that one out, or register a new DistributedDataParallel(model.module)"
            )
        )
    if state.in_use:
        raise RuntimeError(
            f"the communication hook of this model is patallreduce's already ({name}): to register "
            "anew, Handle.close() first, or State.release(), on all ranks"
        )
    return state


def let_go_on(ddp_model: DistributedDataParallel) -> None:
    """Let DDP forget a backward pass that did not end; it rebuilds its buckets, on all ranks."""
    ddp_model._has_rebuilt_buckets = False
    ddp_model.reducer._reset_state()
