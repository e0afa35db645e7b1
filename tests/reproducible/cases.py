"""Contributions that make a sum's order visible, and what the tree gives for them, sequentially."""

from __future__ import annotations

import torch

from tests.reproducible.tree import tree

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def contributions(ranks: int, count: int, dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    """Numbers of both signs with exponents within +-30, a few of them zeros, infinities and NaNs.

    In float16 many overflow or are subnormal.
    """
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for _ in range(ranks):
        mantissas = torch.randn(count, generator=generator, dtype=torch.float64)
        exponents = torch.randint(-30, 31, (count,), generator=generator)
        part = torch.ldexp(mantissas, exponents).to(dtype)
        special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")], dtype=dtype)
        at = torch.randint(0, 500, (count,), generator=generator)
        parts.append(torch.where(at < 5, special[at.clamp(max=4)], part))
    return parts


def expected(parts: list[torch.Tensor], op: str = "sum") -> torch.Tensor:
    """One torch operation per node of the tree; every NaN is the one that sums give.

    One rank keeps what it has, bit by bit.
    """
    if op == "avg" and len(parts) > 1:
        parts = [part * (1 / len(parts)) for part in parts]
    total = tree(parts, torch.add)
    nan = torch.full_like(total, float("nan"))
    return torch.where(total.isnan(), nan, total) if len(parts) > 1 else total


def differing(actual: torch.Tensor, wanted: torch.Tensor) -> int:
    """How many elements differ in some bit."""
    assert actual.dtype == wanted.dtype
    integer = INTEGERS[actual.element_size()]
    return int((actual.view(integer) != wanted.view(integer)).sum())
