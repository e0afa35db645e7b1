"""NaNs, infinities, signed zeros and subnormals: one result, whatever the order and the mode."""

import itertools

import pytest
import torch

from patallreduce import _core

FLOATS = {
    torch.float32: (torch.int32, 0x7FC00000),
    torch.float64: (torch.int64, 0x7FF8000000000000),
    torch.float16: (torch.int16, 0x7E00),
    torch.bfloat16: (torch.int16, 0x7FC0),
}
COUNT = 37  # vector code and the rest after it


@pytest.fixture(name="flushing")
def flushing_fixture():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush")
    yield
    torch.set_flush_denormal(False)


def combine(received, held, op="sum", scale=1.0):
    out = torch.empty_like(received)
    dtype = str(received.dtype).removeprefix("torch.")
    addresses = (out.data_ptr(), 0, received.data_ptr(), held.data_ptr())
    _core.combine(*addresses, received.numel(), dtype, op, scale)
    return out


def patterns(dtype):
    """NaNs of both signs, quiet and signalling, with payloads, and what makes new ones."""
    integer, quiet = FLOATS[dtype]
    infinity = torch.tensor(float("inf"), dtype=dtype).view(integer).item()
    sign = -(2 ** (8 * dtype.itemsize - 1))
    positive = [quiet, quiet + 5, infinity + 3, infinity]
    return [*positive, *(value + sign for value in positive)]


@pytest.mark.parametrize("op", ["sum", "avg", "prod"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_nan_has_one_pattern_whichever_operand_it_came_from(dtype, op):
    integer, quiet = FLOATS[dtype]
    one = torch.ones((), dtype=dtype).view(integer).item()
    for a, b in itertools.product([*patterns(dtype), one, 0], repeat=2):
        there = torch.full((COUNT,), a, dtype=integer).view(dtype)
        back = torch.full((COUNT,), b, dtype=integer).view(dtype)
        result = combine(there, back, op)
        wanted = there * back if op == "prod" else there + back
        assert torch.equal(result.isnan(), wanted.isnan())
        if wanted.isnan().any():
            assert set(result.view(integer).tolist()) == {quiet}
        else:
            assert torch.equal(result.view(integer), wanted.view(integer))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_zeros_keep_the_sign_only_if_both_are_negative(dtype):
    zeros = torch.zeros(COUNT, dtype=dtype)
    for a, b in itertools.product((zeros, -zeros), repeat=2):
        negative = combine(a, b).signbit()
        assert torch.equal(negative, a.signbit() & b.signbit())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_subnormals_are_kept_also_where_the_thread_flushes_them(dtype, flushing):
    integer = FLOATS[dtype][0]
    smallest = torch.ones(COUNT, dtype=integer).view(dtype)
    normal = torch.empty_like(smallest)
    normal.fill_(torch.finfo(dtype).smallest_normal)

    assert combine(smallest, smallest).view(integer).tolist() == [2] * COUNT
    below = combine(-smallest, normal)  # a subnormal result of a normal operand
    assert torch.equal(below.view(integer), normal.view(integer) - 1)
    halved = torch.empty_like(normal)
    name = str(dtype).removeprefix("torch.")
    _core.scale_copy(halved.data_ptr(), normal.data_ptr(), COUNT, name, 0.5)
    assert torch.equal(halved.view(integer), normal.view(integer) // 2)


def test_the_thread_keeps_its_mode(flushing):
    assert _core.flushes_subnormals()
    combine(torch.ones(COUNT), torch.ones(COUNT))
    assert _core.flushes_subnormals()
    torch.set_flush_denormal(False)
    assert not _core.flushes_subnormals()
