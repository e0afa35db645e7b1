"""The GPU kernels' element operations, compiled for this processor: the bits of the CPU's kernels.

This needs no GPU. What it leaves to tests on one is the kernel around them and the conversions of
16-bit floats, which are instructions there; nvcc's host compiler takes NVIDIA's emulation of them.
"""

import ctypes
import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from patallreduce import _core

HERE = Path(__file__).parent
CORE = HERE.parents[1] / "csrc"
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
]  # in the order of the enumerators
OPS = ["sum", "avg", "min", "max", "prod"]
INTEGER_OF = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
COMPILERS = {
    "g++": ["g++", "-O2", "-ffp-contract=off"],
    "nvcc": [
        os.environ.get("PATALLREDUCE_NVCC", "nvcc"),
        *("-x", "cu", "-O2", "-Xcompiler", "-ffp-contract=off"),
    ],
}


@pytest.fixture(name="elements", scope="module", params=COMPILERS)
def elements_fixture(request, tmp_path_factory):
    """`combine_elements` as each compiler made it."""
    command = list(COMPILERS[request.param])
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    library = tmp_path_factory.mktemp("elements") / "elements.so"
    source = HERE / "elements_on_host.cpp"
    position = ["-Xcompiler", "-fPIC"] if request.param == "nvcc" else ["-fPIC"]
    command += ["-std=c++17", "-shared", *position, f"-I{CORE}", str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=120)
    function = ctypes.CDLL(str(library)).combine_elements
    integers = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    function.argtypes = [*[ctypes.c_void_p] * 3, *integers, ctypes.c_double]
    return function


def special_patterns(dtype: torch.dtype) -> torch.Tensor:
    """Bits around everything that goes wrong: zero, subnormals, one, the largest, NaNs; random."""
    integer = INTEGER_OF[dtype.itemsize]
    bits = 8 * dtype.itemsize
    if dtype.is_floating_point:
        around = [0.0, torch.finfo(dtype).smallest_normal, 0.5, 1.0, 3.0, float("inf")]
        centres = torch.tensor(around, dtype=dtype).view(integer).tolist()
        mantissa_bits = round(-torch.tensor(torch.finfo(dtype).eps, dtype=dtype).log2().item())
        centres.append(centres[-1] + 2 ** (mantissa_bits - 1))  # the first quiet NaN
        patterns = [max(0, centre + step) for centre in centres for step in range(-3, 4)]
        patterns += [2**shift for shift in range(mantissa_bits)]  # subnormals of every binade
        patterns += [pattern - 2 ** (bits - 1) for pattern in patterns]
        special = torch.tensor(patterns, dtype=integer)
    else:
        limits = torch.iinfo(dtype)
        special = torch.tensor([0, 1, 2, limits.min, limits.max, limits.max - 1], dtype=dtype)
    limits = torch.iinfo(integer)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(limits.min, limits.max, (100,), dtype=integer, generator=generator)
    return torch.cat([special, drawn])


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of special patterns; of 16-bit floats some of them with any pattern at all."""
    ones = others = special_patterns(dtype)
    if dtype.is_floating_point and dtype.itemsize == 2:
        ones = ones[::9]
        others = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    left = ones.repeat_interleave(len(others)).view(dtype)
    return left, others.repeat(len(ones)).view(dtype)


def combined(function, received, held, op, scale):
    out = torch.empty_like(received)
    addresses = out.data_ptr(), received.data_ptr(), held.data_ptr()
    function(*addresses, received.numel(), DTYPES.index(received.dtype), OPS.index(op), scale)
    return out


def on_cpu(received, held, op, scale):
    out = torch.empty_like(received)
    name = str(received.dtype).removeprefix("torch.")
    addresses = out.data_ptr(), 0, received.data_ptr(), held.data_ptr()
    _core.combine(*addresses, received.numel(), name, op, scale)
    return out


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_have_the_bits_of_the_cpu(elements, dtype, op):
    integer = INTEGER_OF[dtype.itemsize]
    one, other = pairs(dtype)
    for (received, held), scale in itertools.product([(one, other), (other, one)], [1.0, 1 / 3]):
        actual = combined(elements, received, held, op, scale).view(integer)
        wanted = on_cpu(received, held, op, scale).view(integer)

        wrong = (actual != wanted).nonzero().flatten()[:5]
        shown = [
            [f"{int(t[i]):#x}" for t in (received.view(integer), held.view(integer), actual, wanted)]
            for i in wrong
        ]
        assert shown == [], f"received, held, actual, wanted at scale {scale}"
