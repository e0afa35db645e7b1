"""The GPU kernels give the bits of the CPU's, NaNs included, and write nothing else.

Each test runs on a GPU and, without one, on the processor thread by thread. The latter leaves out
the launch and the instructions that convert 16-bit floats, of which nvcc's host compiler takes
NVIDIA's emulation.
"""

import itertools

import pytest
import torch

from patallreduce import _core
from tests.cuda.patterns import (
    DTYPES,
    FLOATS,
    INTEGERS,
    OPS,
    bits,
    name_of,
    random_elements,
    special_elements,
    special_pairs,
)

# Around the ends of vectors, blocks and what all threads do at once.
SIZES = [0, 1, 2, 15, 16, 17, 255, 1000, 4099, 70001]
GUARD = 64  # elements before and behind what may be written


def on_cpu(received, held, op, scale=1.0):
    out = torch.empty_like(received)
    addresses = out.data_ptr(), 0, received.data_ptr(), held.data_ptr()
    _core.combine(*addresses, received.numel(), name_of(received.dtype), op, scale)
    return out


def placed(tensor, device, offset=0):
    """Copy a tensor to `device`, `offset` elements behind a boundary of 16 bytes."""
    arena = torch.empty(tensor.numel() + offset, dtype=tensor.dtype, device=device)
    assert arena.data_ptr() % 16 == 0
    return arena[offset:].copy_(tensor)


class Poisoned:
    """Memory of 0xff (a NaN of any float) to be written to, and around it what must stay."""

    def __init__(self, count, dtype, device, offset=0):
        size = (count + 2 * GUARD + offset) * dtype.itemsize
        self._arena = torch.full((size,), 0xFF, dtype=torch.uint8, device=device)
        self._first = (GUARD + offset) * dtype.itemsize
        self._last = self._first + count * dtype.itemsize
        self.tensor = self._arena[self._first : self._last].view(dtype)

    def assert_holds(self, wanted):
        assert_same_bits(self.tensor, wanted)
        around = torch.cat([self._arena[: self._first], self._arena[self._last :]])
        assert int(around.min()) == 0xFF


def assert_same_bits(actual, wanted):
    actual = actual.cpu()
    wrong = (bits(actual) != bits(wanted)).nonzero().flatten()[:5].tolist()
    shown = [(i, f"{int(bits(actual)[i]):#x}", f"{int(bits(wanted)[i]):#x}") for i in wrong]
    assert shown == [], "element, actual, wanted"


@pytest.mark.parametrize("kernels", ["g++", "nvcc", "gpu"], indirect=True)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values_have_the_bits_of_the_cpu(kernels, dtype, op):
    one, other = special_pairs(dtype)
    for (received, held), scale in itertools.product([(one, other), (other, one)], [1.0, 1 / 3]):
        out = Poisoned(len(one), dtype, kernels.device)
        operands = placed(received, kernels.device), placed(held, kernels.device)

        kernels.combine(out.tensor, None, *operands, op, scale)

        out.assert_holds(on_cpu(received, held, op, scale))


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_number_of_elements(kernels, dtype, op, count):
    received, held = (random_elements(count, dtype, seed) for seed in (2, 3))
    out = Poisoned(count, dtype, kernels.device)

    operands = placed(received, kernels.device), placed(held, kernels.device)
    kernels.combine(out.tensor, None, *operands, op)

    out.assert_holds(on_cpu(received, held, op))


@pytest.mark.parametrize("count", [1, 13, 4099])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_addresses_need_only_be_aligned_to_an_element(kernels, dtype, count):
    """Offsets all alike, which leaves vectors after a head, and all different."""
    received, held = (random_elements(count, dtype, seed) for seed in (4, 5))
    wanted = on_cpu(received, held, "sum", 0.25)
    everywhere = [(offset,) * 4 for offset in range(16 // dtype.itemsize + 1)]
    for offsets in [
        *everywhere,
        (0, 0, 0, 1),
        (0, 0, 1, 0),
        (0, 1, 0, 0),
        (1, 0, 0, 0),
        (3, 2, 1, 0),
    ]:
        out, also = (Poisoned(count, dtype, kernels.device, offset) for offset in offsets[:2])
        operands = [
            placed(tensor, kernels.device, offset)
            for tensor, offset in zip((received, held), offsets[2:], strict=True)
        ]

        kernels.combine(out.tensor, also.tensor, *operands, "sum", 0.25)

        out.assert_holds(wanted)
        also.assert_holds(wanted)


@pytest.mark.parametrize("also_is", ["none", "other", "received", "held"])
@pytest.mark.parametrize("out_is", ["received", "held"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_destinations_may_be_operands(kernels, dtype, out_is, also_is):
    count = 30001
    received, held = (random_elements(count, dtype, seed) for seed in (6, 7))
    wanted = on_cpu(received, held, "prod", 0.75)
    operands = {
        "none": None,
        "other": placed(received, kernels.device),
        "received": placed(received, kernels.device),
        "held": placed(held, kernels.device),
    }
    out, also = operands[out_is], operands[also_is]

    kernels.combine(out, also, operands["received"], operands["held"], "prod", 0.75)

    assert_same_bits(out, wanted)
    if also is not None:
        assert_same_bits(also, wanted)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("scale", [1 / 3, 1e-30, float("inf")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scaled_copies_have_the_bits_of_the_cpu(kernels, dtype, scale, in_place):
    source = torch.cat([special_elements(dtype), random_elements(5001, dtype, seed=8)])
    wanted = torch.empty_like(source)
    addresses = wanted.data_ptr(), source.data_ptr()
    _core.scale_copy(*addresses, source.numel(), name_of(dtype), scale)
    there = placed(source, kernels.device)
    out = there if in_place else torch.empty_like(there)

    kernels.scale_copy(out, there, scale)

    assert_same_bits(out, wanted)


@pytest.mark.parametrize("divisor", [2, 3, 255, 300, 2**31, 2**40])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_quotients_are_those_of_the_cpu(kernels, dtype, divisor):
    values = torch.cat([special_elements(dtype), random_elements(5001, dtype, seed=9)])
    there = placed(values, kernels.device)
    _core.divide(values.data_ptr(), values.numel(), name_of(dtype), divisor)

    kernels.divide(there, divisor)

    assert_same_bits(there, values)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_tree_of_pairs_has_the_bits_of_the_cpu(kernels, dtype):
    """The reproducible sum needs no kernel of its own: it is this one at every node of its tree."""
    leaves = [random_elements(3001, dtype, seed=10 + leaf) for leaf in range(8)]
    there = [placed(leaf, kernels.device) for leaf in leaves]
    while len(leaves) > 1:
        leaves = [on_cpu(a, b, "sum") for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
        for a, b in zip(there[::2], there[1::2], strict=True):
            kernels.combine(a, None, a, b, "sum")
        there = there[::2]

    assert_same_bits(there[0], leaves[0])
