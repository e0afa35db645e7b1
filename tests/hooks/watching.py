"""A DDP model whose layers are watched, and what it reported; for tests in a group of one."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from patallreduce.hooks.layers import Layers
from tests.hooks.models import batch, gradients, mlp

LATE_S = 0.02
START = "start"
FORWARD = 1 / 3
WHOLE = [START, FORWARD, 1 / 2, 2 / 3, 5 / 6]  # an iteration with enough gradients


class Record:
    """Listens, and keeps what it hears: START or a fraction, and when."""

    def __init__(self) -> None:
        self.heard: list[str | float] = []
        self.times_s: list[float] = []

    def start(self, at_s: float) -> None:
        self.heard.append(START)
        self.times_s.append(at_s)

    def edge(self, fraction: float, at_s: float) -> None:
        self.heard.append(fraction)
        self.times_s.append(at_s)

    def take(self) -> list[str | float]:
        """What was heard since the last call."""
        heard, self.heard = self.heard, []
        return heard


class Watched:
    """`module` in DDP, watched, with a hook that leaves buckets as they are."""

    def __init__(self, module: nn.Module, progress=None, *, watch=True, **ddp_arguments) -> None:
        self.ddp = DistributedDataParallel(module, **ddp_arguments)
        self.record = Record() if progress is None else progress
        self.layers = Layers(self.ddp, self.record) if watch else None
        self.called_s: list[float] = []  # of the buckets of the last iteration
        self.arrivals_s: list[tuple[float, ...]] = []  # of all iterations
        self.ddp.register_comm_hook(self, unchanged)

    def train(self, *inputs: torch.Tensor) -> None:
        self.ddp(*inputs).square().sum().backward()


def unchanged(state: Watched, bucket):
    if bucket.index() == 0:
        state.called_s = []
    if state.layers is not None:
        arrivals_s = state.layers.bucket(bucket.index(), bucket.parameters(), bucket.is_last())
        assert (arrivals_s is not None) == bucket.is_last()
        if arrivals_s is not None:
            state.arrivals_s.append(arrivals_s)
    state.called_s.append(time.monotonic())
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def pair(module, progress=None, **ddp_arguments) -> tuple[Watched, Watched]:
    """The same model twice: not watched, and watched."""
    torch.manual_seed(0)
    modules = module(), module()
    modules[1].load_state_dict(modules[0].state_dict())
    plain = Watched(modules[0], watch=False, **ddp_arguments)
    return plain, Watched(modules[1], progress, **ddp_arguments)


def assert_equal_gradients(plain: Watched, watched: Watched) -> None:
    assert gradients(watched.ddp).abs().sum() > 0
    assert torch.equal(gradients(watched.ddp), gradients(plain.ddp))


def assert_no_hooks(ddp: DistributedDataParallel) -> None:
    assert not ddp._forward_pre_hooks
    assert not ddp._forward_hooks
    assert not any(parameter._post_accumulate_grad_hooks for parameter in ddp.parameters())


def train(models, iterations=3, name="mlp"):
    for i in range(iterations):
        for model in models:
            model.train(batch(name, 0, i))


class Late(torch.autograd.Function):
    """Makes everything before it late in backward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(LATE_S)
        return gradient


class Branches(nn.Module):
    """Uses one of two layers."""

    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(3)])

    def forward(self, x, which=0):
        return Late.apply(self.layers[2](self.layers[which](x)))


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x):
        y = self.body(x)
        if bool(x.isnan().any()):
            raise ArithmeticError("not a number")
        return y
