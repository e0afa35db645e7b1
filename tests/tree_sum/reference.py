"""The tree of BTR22 in plain torch and plain Python, and elements that tell orders apart."""

import torch

from patallreduce import distributions

COMBINE = {"sum": torch.add, "min": torch.minimum, "max": torch.maximum, "prod": torch.mul}
DISTRIBUTIONS = {
    "lower": distributions.even_lower,
    "upper": distributions.even_upper,
    "power": distributions.power_of_two,
    "optimized": distributions.optimized,
}


def tree(values, op="sum"):
    """Combine neighbours, level by level; who has no neighbour goes up as it is."""
    while len(values) > 1:
        pairs = len(values) // 2
        combined = COMBINE[op](values[0 : 2 * pairs : 2], values[1::2])
        values = torch.cat([combined, values[2 * pairs :]])
    return values[0]


def recursive(values, x, y):
    """Equations 2.1, 2.2 and 2.3 on a list of floats, word by word."""
    if y == 0:
        return values[x]
    if x + 2 ** (y - 1) >= len(values):
        return recursive(values, x, y - 1)
    return recursive(values, x, y - 1) + recursive(values, x + 2 ** (y - 1), y - 1)


def elements(count, dtype=torch.float64, seed=0, columns=None):
    """Signed values with exponents of +-30 (products: near 1), so that every order shows."""
    generator = torch.Generator().manual_seed(seed)
    shape = (count,) if columns is None else (count, columns)
    mantissas = torch.randn(shape, generator=generator, dtype=torch.float64)
    exponents = torch.randint(-30, 31, shape, generator=generator)
    return (mantissas * 2.0**exponents).to(dtype)


def factors(count, dtype=torch.float64, seed=0, columns=None):
    """Values near 1, whose products neither vanish nor overflow."""
    generator = torch.Generator().manual_seed(seed)
    shape = (count,) if columns is None else (count, columns)
    return (1 + (torch.rand(shape, generator=generator) - 0.5) / 8).to(dtype)


def bits(tensor):
    """Integers, so that -0 differs from 0 and NaNs can be compared."""
    return tensor.contiguous().view({4: torch.int32, 8: torch.int64}[tensor.element_size()])
