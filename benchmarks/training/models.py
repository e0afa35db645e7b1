"""The models that the training benchmark trains: CIFAR-10's images in, the classes' scores out.

Each takes longer on request, all the way through, as it would on a slower machine: its blocks
sleep. Ranks may share cores here; one that spins would delay the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

CLASSES = 10


class Asleep(torch.autograd.Function):
    """Passes its input on; takes longer, asleep: so long in forward, twice as long in backward."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, forward_s: float) -> Tensor:
        """Sleep and pass on."""
        ctx.forward_s = forward_s
        time.sleep(forward_s)
        return images.view_as(images)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Sleep twice as long, as backward passes compute twice as much."""
        time.sleep(2 * ctx.forward_s)
        return gradient, None


asleep: Callable[[Tensor, float], Tensor] = Asleep.apply


class Slowed(nn.Module):
    """Blocks one after the other, which share what an iteration takes longer.

    Set `longer_s` before each iteration. A block without parameters takes no time of it.
    """

    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.longer_s = 0.0
        self._weighted = [any(True for _ in block.parameters()) for block in self.blocks]

    def forward(self, images: Tensor) -> Tensor:
        """Return the classes' scores."""
        values = images
        for block, weighted in zip(self.blocks, self._weighted, strict=True):
            if weighted:
                # Its backward pass sleeps before the gradients of the block before are made.
                values = asleep(block(values), self.longer_s / 3 / sum(self._weighted))
            else:
                values = block(values)
        return values


class Padding(nn.Module):
    """A parameter that only adds gradient bytes."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.padding = nn.Parameter(torch.zeros(max(elements, 1)))

    def forward(self, values: Tensor) -> Tensor:
        """Pass on."""
        return values + self.padding[:1].sum() * 0


class Weight(nn.Module):
    """Some gradient bytes that nothing is computed with: the scores are all alike."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(elements))

    def forward(self, values: Tensor) -> Tensor:
        """Pass on."""
        return values + self.weight[:1].sum()


class Residual(nn.Module):
    """The basic block of a residual network: two convolutions and what goes past them.

    Source: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, sections 3.3, 4.1.
    """

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()),
            *(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)),
        )
        self.past: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.past = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, values: Tensor) -> Tensor:
        """(n, channels, height, width) in, (n, out, height / stride, width / stride) out."""
        return torch.relu(self.body(values) + self.past(values))


def padded(gradient_bytes: int) -> Slowed:
    """The network of PAP18 (section 6), padded to so many gradient bytes, all of one bucket."""
    blocks = [
        *(nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, CLASSES)),
    ]
    weights = sum(p.numel() for block in blocks for p in block.parameters())
    # First, so that its gradient comes last: no bucket is ready before the computation ends.
    return Slowed([Padding(gradient_bytes // 4 - weights), *blocks])


def layered(gradient_bytes: int, layers: int) -> Slowed:
    """Layers of equal size that only take time."""
    weights = [Weight(max(gradient_bytes // 4 // layers, 1)) for _ in range(layers)]
    return Slowed([Flat(), *weights])


class Flat(nn.Module):
    """Scores that say nothing."""

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, classes) zeros."""
        return images.new_zeros((len(images), CLASSES))


def resnet18() -> Slowed:
    """ResNet18 for small images: 11.2 million parameters, three of DDP's default buckets.

    Source: He et al., CVPR 2016, table 1; a first convolution of 3 x 3 as in their section 4.2.
    """
    blocks: list[nn.Module] = [
        nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    ]
    channels = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Residual(channels, out, stride), Residual(out, out, 1)]
        channels = out
    blocks.append(
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))
    )
    return Slowed(blocks)


class Patches(nn.Module):
    """Images cut into 64 patches of 4 x 4 pixels, each a token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, width, 4, 4)
        self.positions = nn.Parameter(torch.zeros(64, width))

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, 32, 32) in, (n, 64, width) out."""
        projected: Tensor = self.project(images)
        return projected.flatten(2).transpose(1, 2) + self.positions


class Head(nn.Module):
    """Scores of the tokens' mean."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.classify = nn.Linear(width, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, tokens, width) in, (n, classes) out."""
        scores: Tensor = self.classify(tokens.mean(dim=1))
        return scores


def transformer(width: int = 384, layers: int = 10) -> Slowed:
    """A small vision transformer: 17.8 million parameters, four of DDP's default buckets.

    Source: Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, section 3.1.
    """
    encoder = [
        nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0, batch_first=True, norm_first=True
        )
        for _ in range(layers)
    ]
    return Slowed([Patches(width), *encoder, Head(width)])


REAL: dict[str, Callable[[], Slowed]] = {"resnet18": resnet18, "transformer": transformer}
