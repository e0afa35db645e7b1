"""How near to memory speed do the reductions run?  Prints one JSON line per case.

    python -m benchmarks.reduction --dtypes float32 float16 --ops sum

Three take turns: the kernel, STREAM's triad a = b + s * c over as many
bytes, and torch's own operation on one thread. GB/s count each operand read and each destination
written once; what the hardware moves besides (reading a line before writing it) is not counted,
for any of them.

The triad is a C++ loop with the flags and the vector code of the core's kernels: a torch or numpy
triad would bring a call overhead that counts at 64 KiB, and other vector code. All figures are
medians; the ratio is the median of the ratios within one turn, because other processes use the same
memory and come and go. Around the size of the last cache the ratio flatters the kernel, whose
arrays torch shares.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import processor
from benchmarks.triad import Triad, build_triad
from patallreduce import _core

OPS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.add,
    "min": torch.minimum,
    "max": torch.maximum,
    "prod": torch.mul,
}
DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"]
# What the executor asks for: which arrays a form writes and how many bytes per byte it moves.
FORMS = {"separate": 3, "in_place": 3, "also": 4, "scaled": 3}
SIZES_BYTES = [64 << 10, 1 << 20, 8 << 20, 64 << 20, 256 << 20]


def seconds(call: Callable[[], object], calls: int) -> float:
    """Mean time of one of `calls` calls in a row.

    An untimed call before them: each finds in the caches its own arrays, not its rival's.
    """
    call()
    start_s = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start_s) / calls


def measure(
    yardstick: Triad, dtype_name: str, op: str, form: str, *, size_bytes: int, repeats: int
) -> dict[str, object]:
    """Time kernel, triad and torch in turns on arrays of `size_bytes` each."""
    dtype = getattr(torch, dtype_name)
    # Ones everywhere, so no subnormals, which cost microcode; the loops do not look at values.
    out, also, received, held = (
        torch.ones(size_bytes // dtype.itemsize, dtype=dtype) for _ in range(4)
    )
    # Arrays of its own: an integer 1 read as float32 is a subnormal.
    triad_a, triad_b, triad_c = (torch.ones(size_bytes // 4) for _ in range(3))
    out_address = held.data_ptr() if form == "in_place" else out.data_ptr()
    also_address = also.data_ptr() if form == "also" else 0
    scale = 0.5 if form == "scaled" else 1.0

    def kernel() -> None:
        _core.combine(
            out_address,
            also_address,
            received.data_ptr(),
            held.data_ptr(),
            received.numel(),
            dtype_name,
            op,
            scale,
        )

    def triad() -> None:
        yardstick(triad_a.data_ptr(), triad_b.data_ptr(), triad_c.data_ptr(), triad_a.numel(), 0.5)

    def rival() -> None:
        OPS[op](received, held, out=out)

    calls = max(1, (4 << 20) // size_bytes)
    samples_s: dict[str, list[float]] = {"kernel": [], "triad": [], "torch": []}
    for _ in range(repeats):
        for name, call in (("kernel", kernel), ("triad", triad), ("torch", rival)):
            samples_s[name].append(seconds(call, calls))
    moved_bytes = {"kernel": FORMS[form] * size_bytes, "triad": 3 * size_bytes}
    moved_bytes["torch"] = 3 * size_bytes
    rates = {
        name: [moved_bytes[name] / sample_s / 1e9 for sample_s in samples_s[name]]
        for name in samples_s
    }
    ratios = [kernel / triad for kernel, triad in zip(rates["kernel"], rates["triad"], strict=True)]
    return {
        "dtype": dtype_name,
        "op": op,
        "form": form,
        "array_bytes": size_bytes,
        "kernel_gb_per_s": round(statistics.median(rates["kernel"]), 2),
        "triad_gb_per_s": round(statistics.median(rates["triad"]), 2),
        "torch_gb_per_s": round(statistics.median(rates["torch"]), 2),
        "ratio_to_triad": round(statistics.median(ratios), 3),
        "repeats": repeats,
    }


def main() -> None:
    """Measure every chosen case."""
    parser = command_line("reduction", __doc__)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--ops", nargs="+", choices=list(OPS), default=list(OPS))
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=["separate"])
    parser.add_argument("--sizes-bytes", nargs="+", type=int, default=SIZES_BYTES)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()

    torch.set_num_threads(1)
    yardstick = build_triad()
    where = {
        "vector_level": _core.vector_level(),
        "processor": processor(),
        "torch_version": torch.__version__,
    }
    for size_bytes in options.sizes_bytes:
        for dtype in options.dtypes:
            for op in options.ops:
                for form in options.forms:
                    row = measure(
                        yardstick, dtype, op, form, size_bytes=size_bytes, repeats=options.repeats
                    )
                    print(json.dumps({**row, **where}), flush=True)


if __name__ == "__main__":
    main()
