"""One rank's complete subtrees: every vector level has the bits of the plain tree."""

import pytest
import torch

from patallreduce import _core
from tests.tree_sum.reference import COMBINE, bits, elements, factors, recursive, tree

FLOATS = [torch.float32, torch.float64]


def usable_vectors():
    def works(name):
        one = torch.ones(1)
        try:
            _core.subtree(one.data_ptr(), one.data_ptr(), 0, 1, "float32", "sum", name)
        except ValueError:
            return False
        return True

    return [name for name in ("portable", "avx2", "avx512") if works(name)]


VECTORS = usable_vectors()


def subtree(values, op, vectors):
    rows = values if values.dim() == 2 else values[:, None]
    out = torch.empty(rows.shape[1], dtype=values.dtype)
    dtype = str(values.dtype).removeprefix("torch.")
    level = len(rows).bit_length() - 1
    _core.subtree(out.data_ptr(), rows.data_ptr(), level, rows.shape[1], dtype, op, vectors)
    return out


def test_the_reference_is_the_papers_recursion():
    for count in range(1, 70):
        values = elements(count, seed=count)
        levels = (count - 1).bit_length()
        assert float(tree(values)) == recursive(values.tolist(), 0, levels)


@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("op", COMBINE)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_level_of_vectors_has_the_bits_of_the_tree(dtype, op, vectors):
    """From one element to several tiles, at every alignment of an element."""
    make = factors if op == "prod" else elements
    for level in range(16):
        shifted = make(2**level + 3, dtype, seed=level)
        for shift in (0, 1, 3):
            values = shifted[shift : shift + 2**level]
            wanted = tree(values, op)
            assert torch.equal(bits(subtree(values, op, vectors)[0]), bits(wanted)), (level, shift)


@pytest.mark.parametrize("vectors", VECTORS)
def test_a_million_elements(vectors):
    values = elements(2**20)
    assert torch.equal(bits(subtree(values, "sum", vectors)[0]), bits(tree(values)))


@pytest.mark.parametrize("columns", [2, 3, 8, 17])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_columns_are_trees_of_their_own(dtype, columns):
    for level in range(9):
        values = elements(2**level, dtype, seed=level, columns=columns)
        assert torch.equal(bits(subtree(values, "sum", "")), bits(tree(values)))


@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_zeros_infinities_and_subnormals(dtype, vectors):
    """For min and max -0 is the smaller one, and a NaN stays one wherever it stands."""
    tiny = torch.finfo(dtype).smallest_normal
    for place in range(0, 1024, 37):
        zeros = torch.zeros(1024, dtype=dtype)
        zeros[place] = -0.0
        assert subtree(zeros, "min", vectors).signbit().item()
        assert subtree(-zeros, "max", vectors).signbit().item() is False
        assert subtree(zeros.fill_(-0.0), "sum", vectors).signbit().item()
        values = elements(1024, dtype)
        values[place] = float("nan")
        for op in COMBINE:
            assert subtree(values, op, vectors).isnan().item(), op
        values[place] = float("inf")
        assert subtree(values, "max", vectors).item() == float("inf")
        assert subtree(values, "sum", vectors).item() == float("inf")
    assert subtree(torch.full((1024,), tiny / 1024, dtype=dtype), "sum", vectors).item() == tiny


def test_bad_arguments_are_named():
    one = torch.ones(1)
    address = one.data_ptr()
    with pytest.raises(ValueError, match="expected float32 or float64, got int32"):
        _core.subtree(address, address, 0, 1, "int32", "sum")
    with pytest.raises(ValueError, match="expected sum, min, max or prod, got avg"):
        _core.subtree(address, address, 0, 1, "float32", "avg")
    with pytest.raises(ValueError, match='"avx1024" is unknown or not of this processor'):
        _core.subtree(address, address, 0, 1, "float32", "sum", "avx1024")
