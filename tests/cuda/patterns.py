"""Elements by their bits: what goes wrong first, and what nobody thought of."""

from __future__ import annotations

import torch

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
]  # in the order of the core's enumerators
FLOATS = DTYPES[:4]
INTEGERS = DTYPES[4:]
OPS = ["sum", "avg", "min", "max", "prod"]
_INTEGER_OF = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def name_of(dtype: torch.dtype) -> str:
    """As the core calls it."""
    return str(dtype).removeprefix("torch.")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """View elements as integers, so that comparisons see every bit of a NaN."""
    return tensor.view(_INTEGER_OF[tensor.element_size()])


def random_elements(count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Draw any bits at all: of floats some are NaNs, infinities and subnormals."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return drawn.view(dtype)


def special_elements(dtype: torch.dtype) -> torch.Tensor:
    """Return bits around zero, subnormals, one, the largest number and NaNs; and random ones."""
    integer = _INTEGER_OF[dtype.itemsize]
    if dtype.is_floating_point:
        around = [0.0, torch.finfo(dtype).smallest_normal, 0.5, 1.0, 3.0, float("inf")]
        centres = torch.tensor(around, dtype=dtype).view(integer).tolist()
        mantissa_bits = round(-torch.tensor(torch.finfo(dtype).eps, dtype=dtype).log2().item())
        centres.append(centres[-1] + 2 ** (mantissa_bits - 1))  # the first quiet NaN
        patterns = [max(0, centre + step) for centre in centres for step in range(-3, 4)]
        patterns += [2**shift for shift in range(mantissa_bits)]  # subnormals of every binade
        patterns += [pattern - 2 ** (8 * dtype.itemsize - 1) for pattern in patterns]
        special = torch.tensor(patterns, dtype=integer).view(dtype)
    else:
        limits = torch.iinfo(dtype)
        special = torch.tensor([0, 1, 2, limits.min, limits.max, limits.max - 1], dtype=dtype)
    return torch.cat([special, random_elements(100, dtype, seed=1)])


def special_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of special elements; of 16-bit floats some of them with any pattern at all."""
    ones = others = special_elements(dtype)
    if dtype.is_floating_point and dtype.itemsize == 2:
        ones = ones[::9]
        others = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    return ones.repeat_interleave(len(others)), others.repeat(len(ones))
