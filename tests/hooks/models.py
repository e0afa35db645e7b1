"""Small models and training loops for DDP tests: deterministic, different data on every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def mlp(width: int = 128, layers: int = 6) -> nn.Module:
    """Equal layers: 66,048 bytes of gradients each, by default."""
    return nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(width, width), nn.Tanh())])


class ConvBatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)
        )
        self.head = nn.Linear(4 * 6 * 6, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images).flatten(1))


class TiedEmbedding(nn.Module):
    """A tiny language model whose output layer is its embedding."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16, sparse=sparse)
        self.mix = nn.Linear(16, 16)
        self.out = nn.Linear(16, 50, bias=False)
        if not sparse:
            self.out.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.mix(self.embedding(tokens))))


def model_and_batch(name: str, rank: int, iteration: int) -> tuple[nn.Module, torch.Tensor]:
    """The model, equal on all ranks; the batch, of this rank and iteration."""
    torch.manual_seed(0)
    model = {"mlp": mlp, "conv": ConvBatchNorm, "embedding": TiedEmbedding}[name]()
    return model, batch(name, rank, iteration)


def batch(name: str, rank: int, iteration: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * iteration + rank)
    if name == "embedding":
        return torch.randint(50, (12,), generator=generator)
    shape = {"mlp": (4, 128), "conv": (4, 3, 8, 8)}[name]
    return torch.randn(shape, generator=generator)


def train(name: str, iterations: int, hook, **ddp_arguments) -> tuple[list[float], torch.Tensor]:
    """Losses averaged over the ranks, and the final parameters in one vector.

    `hook(ddp_model)` installs a communication hook, or nothing.
    """
    rank = dist.get_rank()
    model, _ = model_and_batch(name, rank, 0)
    ddp_model = DistributedDataParallel(model, **ddp_arguments)
    hook(ddp_model)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01, momentum=0.9)
    losses = torch.zeros(iterations, dtype=torch.float64)
    for i in range(iterations):
        optimizer.zero_grad()
        loss = ddp_model(batch(name, rank, i)).sub(1).square().mean()
        loss.backward()
        optimizer.step()
        losses[i] = loss.item()
    dist.all_reduce(losses)
    return (losses / dist.get_world_size()).tolist(), flat(ddp_model)


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def assert_equal_on_all_ranks(values: torch.Tensor) -> None:
    of_rank_0 = values.clone()
    dist.broadcast(of_rank_0, 0)
    assert torch.equal(values, of_rank_0), f"rank {dist.get_rank()} drifted from rank 0"


def gradients(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
