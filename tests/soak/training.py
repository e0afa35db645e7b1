"""Some iterations of DistributedDataParallel whose gradients are known to the bit."""

from __future__ import annotations

import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat

from .steps import Step

TIMEOUT_S = 30.0  # of every call
_EXAMPLES = 2


def _layers(width: int, count: int) -> nn.Module:
    """Each layer permutes: activations and gradients of integers are integers."""
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(count)])
    for layer in model:
        nn.init.zeros_(layer.bias)
        layer.weight.data = torch.eye(width).roll(1, 0)
    return model


def train(step: Step, group: dist.ProcessGroup, own: random.Random) -> int:
    """Compare every gradient of every iteration; how many of the last buckets were planned.

    Args:
        step: Of kind "train".
        group: Of a power of two of ranks, so that averages of integers are exact.
        own: Of this rank alone.
    """
    choose = random.Random(step.seed)
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    width, count = choose.choice([8, 64, 128]), choose.randint(1, 8)
    model, plain = _layers(width, count), _layers(width, count)
    ddp_model = DistributedDataParallel(
        model,
        process_group=group,
        bucket_cap_mb=choose.choice([0.02, 0.1, 25]),
        gradient_as_bucket_view=choose.random() < 0.5,
    )
    handle = pat.register(
        ddp_model,
        algorithm=step.algorithm or "auto",
        monitor=step.opening.monitor,
        link=step.opening.link,
        timeout_s=TIMEOUT_S,
    )
    for _ in range(step.rounds):
        generator = torch.Generator().manual_seed(choose.randrange(1 << 30))
        examples = torch.randint(-3, 4, (ranks, _EXAMPLES, width), generator=generator).float()
        ddp_model.zero_grad()
        plain.zero_grad()
        loss = ddp_model(examples[rank]).sum()
        come_late(step, rank, own)
        loss.backward()
        plain(examples.flatten(0, 1)).sum().div(ranks).backward()
        for (name, wanted), got in zip(plain.named_parameters(), model.parameters(), strict=True):
            assert torch.equal(got.grad, wanted.grad), f"gradient of {name} with {step}"
    planned = sum(record["planned"] for record in handle.communicator.stats())
    handle.close()
    return planned


def come_late(step: Step, rank: int, own: random.Random) -> None:
    """Sleep, if this is the rank to come late, and otherwise a little."""
    late_s = step.late_s if rank == step.late and own.random() < 0.9 else 0.0
    time.sleep(late_s + own.uniform(0, 0.001))
