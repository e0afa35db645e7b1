"""Element-wise reductions against torch's own, to the bit."""

import hashlib
import os

import pytest
import torch

from patallreduce import _core

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
}
FLOATS = [name for name, dtype in DTYPES.items() if dtype.is_floating_point]
INTEGERS = [name for name in DTYPES if name not in FLOATS]
OPS = {
    "sum": torch.add,
    "avg": torch.add,
    "min": torch.minimum,
    "max": torch.maximum,
    "prod": torch.mul,
}
SIZES = [0, 1, 7, 8, 15, 16, 17, 31, 33, 1000]
# A tile is 4096 bytes: these end before, on and after the edge of one, for every element size.
TILED_SIZES = [*SIZES, 4095, 4096, 4097, 10007]


def random_elements(count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        # Exponents from far below to far above 1: cancellation, ties, float16 at both its ends.
        magnitude = torch.randint(-12, 9, (count,), generator=generator)
        return (torch.randn(count, generator=generator) * 2.0**magnitude).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, (count,), generator=generator, dtype=dtype)


def special_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every ordered pair of the values that go wrong first."""
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        tiny = limits.smallest_normal
        positive = [0.0, tiny, tiny * limits.eps, tiny * 0.75, 1.0, 1 + limits.eps, 3.0]
        positive += [limits.eps / 2, limits.max, limits.max / 2, float("inf"), float("nan")]
        values = torch.tensor(positive + [-value for value in positive], dtype=torch.float64)
    else:
        integers = torch.iinfo(dtype)
        values = torch.tensor([0, 1, 2, 7, integers.min, integers.max, integers.max - 1])
    values = values.to(dtype)
    return values.repeat_interleave(len(values)), values.repeat(len(values))


def every_pattern(dtype: torch.dtype) -> torch.Tensor:
    """Return all 65,536 values of a 16-bit dtype, NaNs included."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """View the elements as integers, all NaNs made equal: which one comes out is unspecified."""
    if not tensor.is_floating_point():
        return tensor
    tensor = torch.where(tensor.isnan(), torch.full_like(tensor, float("nan")), tensor)
    return tensor.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def combine(received, held, op, *, scale=1.0, out=None, also=None):
    out = torch.empty_like(received) if out is None else out
    dtype = str(received.dtype).removeprefix("torch.")
    also_address = 0 if also is None else also.data_ptr()
    _core.combine(
        out.data_ptr(),
        also_address,
        received.data_ptr(),
        held.data_ptr(),
        received.numel(),
        dtype,
        op,
        scale,
    )
    return out


def expected(received, held, op, scale=1.0):
    if scale != 1 and held.is_floating_point():
        held = held * scale
    return OPS[op](received, held)


def assert_same(actual, wanted, *, signed_zero=True):
    if signed_zero:
        assert torch.equal(bits(actual), bits(wanted))
    else:
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_elements_combine_as_in_torch(dtype, op, count):
    received = random_elements(count, DTYPES[dtype], seed=1)
    held = random_elements(count, DTYPES[dtype], seed=2)

    assert_same(combine(received, held, op), expected(received, held, op))


@pytest.mark.parametrize("scale", [1.0, 0.5, -3.0])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_combine_as_in_torch(dtype, op, scale):
    received, held = special_pairs(DTYPES[dtype])

    actual = combine(received, held, op, scale=scale)

    # torch itself is not of one mind about min(+0, -0): its vector and scalar code differ.
    signed_zero = op not in ("min", "max")
    assert_same(actual, expected(received, held, op, scale), signed_zero=signed_zero)


@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_zero_is_the_smaller_zero(dtype):
    zeros = torch.tensor([0.0, -0.0], dtype=DTYPES[dtype]).repeat(20)

    assert_same(combine(zeros, -zeros, "min"), -torch.zeros_like(zeros))
    assert_same(combine(zeros, -zeros, "max"), torch.zeros_like(zeros))


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operands_of_min_and_max_commute_to_the_bit_even_for_nans(dtype, op):
    every = every_pattern(DTYPES[dtype])
    for seed in range(4):
        shuffled = every[torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))]

        there, back = combine(every, shuffled, op), combine(shuffled, every, op)

        assert torch.equal(there.view(torch.int16), back.view(torch.int16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_pattern_survives_and_rounds_as_in_torch(dtype):
    """All 65,536 values: unchanged by min with themselves, rounded alike after a product."""
    every = every_pattern(DTYPES[dtype])

    assert_same(combine(every, every, "min"), every)
    for factor in (1 / 3, 1.5, 257.0):
        held = torch.full_like(every, factor)
        assert_same(combine(every, held, "prod"), every * held)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_is_to_nearest_even_at_every_exponent(dtype):
    """Sums of numbers one to twelve binades apart: ties, carries, overflow, subnormals."""
    every = torch.arange(0, 2**15, dtype=torch.int32).to(torch.int16).view(DTYPES[dtype])
    for factor in 2.0 ** torch.arange(1, 13):
        for sign in (1, -1):
            held = every / factor * sign
            assert_same(combine(every, held, "sum"), every + held)


def test_float16_overflows_to_infinity():
    largest = torch.full((40,), 65504.0, dtype=torch.float16)
    barely = torch.full((40,), 16.0, dtype=torch.float16)  # half a unit in the last place

    assert combine(largest, barely, "sum").isinf().all()
    assert combine(largest, barely * 0.999, "sum").equal(largest)


@pytest.mark.parametrize("offset", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_addresses_need_only_be_aligned_to_an_element(dtype, offset):
    count = 1000
    received = random_elements(count + offset, DTYPES[dtype], seed=3)[offset:]
    held = random_elements(count + 2 * offset, DTYPES[dtype], seed=4)[2 * offset :]
    around = random_elements(count + 5, DTYPES[dtype], seed=5)
    out = around.clone()

    combine(received, held, "sum", out=out[offset : offset + count])

    assert_same(out[offset : offset + count], expected(received, held, "sum"))
    assert_same(out[:offset], around[:offset])  # and nothing beside it is written
    assert_same(out[offset + count :], around[offset + count :])


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("count", TILED_SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_destinations_hold_the_same_scaled_result(dtype, count, scale):
    received = random_elements(count, DTYPES[dtype], seed=6)
    held = random_elements(count, DTYPES[dtype], seed=7)
    wanted = expected(received, held, "avg", scale)
    also = torch.empty_like(received)

    out = combine(received, held, "avg", scale=scale, also=also)

    assert_same(out, wanted)
    assert_same(also, wanted)


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("also_is", ["none", "other", "received", "held"])
@pytest.mark.parametrize("out_is", ["received", "held"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_destinations_may_be_operands(dtype, out_is, also_is, scale):
    operands = {
        "none": None,
        "other": torch.empty(3001, dtype=DTYPES[dtype]),
        "received": random_elements(3001, DTYPES[dtype], seed=8),
        "held": random_elements(3001, DTYPES[dtype], seed=9),
    }
    wanted = expected(operands["received"], operands["held"], "prod", scale)
    out, also = operands[out_is], operands[also_is]

    combine(operands["received"], operands["held"], "prod", scale=scale, out=out, also=also)

    assert_same(out, wanted)
    if also is not None:
        assert_same(also, wanted)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1 / 3, 1e-30])
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scale_copy_rounds_as_torch_does(dtype, count, scale, in_place):
    source = random_elements(count, DTYPES[dtype], seed=10)
    wanted = source * scale if dtype in FLOATS else source.clone()
    out = source if in_place else torch.empty_like(source)

    _core.scale_copy(out.data_ptr(), source.data_ptr(), count, dtype, scale)

    assert_same(out, wanted)


@pytest.mark.parametrize("divisor", [1, 3, 8, 300, 2**31, 2**40])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divide_truncates_toward_zero(dtype, divisor):
    values = torch.cat(
        [random_elements(100, DTYPES[dtype], seed=11), *special_pairs(DTYPES[dtype])]
    )
    # Python's integers are the reference: they hold every divisor.
    wanted = [abs(v) // divisor * (-1 if v < 0 else 1) for v in values.tolist()]

    _core.divide(values.data_ptr(), values.numel(), dtype, divisor)

    assert values.tolist() == wanted


@pytest.mark.parametrize("dtype", FLOATS)
def test_divide_leaves_floats_alone(dtype):
    values = random_elements(100, DTYPES[dtype], seed=12)
    before = values.clone()

    _core.divide(values.data_ptr(), values.numel(), dtype, 4)

    assert_same(values, before)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r'float32, float64, .*; got "complex64"'):
        _core.combine(0, 0, 0, 0, 0, "complex64", "sum")
    with pytest.raises(ValueError, match=r'sum, avg, min, max, prod; got "xor"'):
        _core.combine(0, 0, 0, 0, 0, "float32", "xor")
    with pytest.raises(ValueError, match="got 0"):
        _core.divide(0, 0, "int32", 0)


def all_results() -> dict[str, str]:
    """Digest the result of every dtype and op: what the vector levels must agree on."""
    digests = {"level": _core.vector_level()}
    for name, dtype in DTYPES.items():
        special = special_pairs(dtype)
        received = torch.cat([random_elements(1003, dtype, seed=13), special[0]])
        held = torch.cat([random_elements(1003, dtype, seed=14), special[1]])
        if dtype.itemsize == 2:
            received = torch.cat([received, every_pattern(dtype)])
            held = torch.cat([held, torch.full((2**16,), 1 / 3, dtype=dtype)])
        for op in OPS:
            for scale in (1.0, 0.3):
                result = bits(combine(received, held, op, scale=scale))
                digest = hashlib.sha256(result.view(torch.uint8).numpy().tobytes())
                digests[f"{name} {op} {scale}"] = digest.hexdigest()
    return digests


def results_at_level(level: str) -> dict[str, str]:
    os.environ["PATALLREDUCE_VECTOR"] = level
    return all_results()


def test_vector_levels_give_the_same_bits(processes):
    """The level is read once per process, so each has its own."""
    names = ["portable", "avx2", "avx512"]
    results = {level: processes.once(1, results_at_level, level)[0] for level in names}

    widest = names.index(results["avx512"].pop("level"))
    for level in ("portable", "avx2"):
        # A level the processor lacks falls back to the widest it has.
        assert results[level].pop("level") == names[min(names.index(level), widest)]
    assert results["portable"] == results["avx2"] == results["avx512"]


def test_unknown_vector_level_is_refused(processes):
    expected = 'PATALLREDUCE_VECTOR: expected portable, avx2 or avx512, got "avx1024"'
    with pytest.raises(ValueError, match=expected):
        processes.once(1, results_at_level, "avx1024")
