"""How near to memory speed do the GPU kernels run?  Prints one JSON line per case.

    python -m benchmarks.gpu kernels --dtypes float32 bfloat16 --ops sum

Three take turns on one stream: the kernel, a device-to-device copy of one array, and torch's own
operation. GB/s count each operand read and each destination written once, so the copy moves two
arrays, the kernel three or, with a second destination, four. A sample is a CUDA graph of many calls
between two events: the host's launches, slower than small kernels, are not in it. All figures are
medians; the ratio is the median of the ratios within one turn. Arrays that fit the GPU's L2 cache
are read from it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch

from benchmarks.reduction import DTYPES, FORMS, OPS
from patallreduce import _core
from patallreduce.gpu import cuda

SIZES_BYTES = [1 << shift for shift in range(20, 31, 2)]
SAMPLE_BYTES = 8 << 30  # moved per sample: some 2 ms at 4 TB/s
MOST_CALLS = 1000  # per sample, or small arrays would make graphs that take long to record


def open_gpu(device: int, blocks_per_multiprocessor: int) -> _core.CudaReduction:
    """Open the kernels and the GPU; SystemExit says what is missing."""
    try:
        gpu = _core.CudaReduction(cuda.library_path(), device, blocks_per_multiprocessor)
    except _core.CudaError as error:
        raise SystemExit(f"benchmarks.gpu needs a GPU: {error}") from error
    if not torch.cuda.is_available():
        raise SystemExit(f"benchmarks.gpu needs a GPU: torch {torch.__version__} sees none")
    torch.cuda.set_device(device)
    return gpu


def record(call: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    """Make a graph of `calls` calls in a row."""
    call()  # what happens only once, such as the loading of a kernel, must not be recorded
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    graph.replay()
    return graph


def seconds(graph: torch.cuda.CUDAGraph) -> float:
    """Time of the whole graph on the device."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def measure(
    gpu: _core.CudaReduction, dtype_name: str, op: str, form: str, *, size_bytes: int, repeats: int
) -> dict[str, object]:
    """Time kernel, copy and torch in turns on arrays of `size_bytes` each."""
    dtype = getattr(torch, dtype_name)
    count = size_bytes // dtype.itemsize
    received, held, out, also = (torch.ones(count, dtype=dtype, device="cuda") for _ in range(4))
    to = held if form == "in_place" else out
    addresses = (
        to.data_ptr(),
        also.data_ptr() if form == "also" else 0,
        received.data_ptr(),
        held.data_ptr(),
    )
    scale = 0.5 if form == "scaled" else 1.0

    def kernel() -> None:
        stream = torch.cuda.current_stream().cuda_stream  # a recording has one of its own
        gpu.combine(*addresses, count, dtype_name, op, scale, stream)

    calls = min(MOST_CALLS, max(3, SAMPLE_BYTES // (FORMS[form] * size_bytes)))
    arrays = {"kernel": FORMS[form], "copy": 2, "torch": 3}
    graphs = {
        "kernel": record(kernel, calls),
        "copy": record(lambda: out.copy_(received), calls),
        "torch": record(lambda: OPS[op](received, held, out=to), calls),
    }
    rates: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(repeats):
        for name, graph in graphs.items():
            moved_bytes = calls * arrays[name] * size_bytes
            rates[name].append(moved_bytes / seconds(graph) / 1e9)
    ratios = [kernel / copy for kernel, copy in zip(rates["kernel"], rates["copy"], strict=True)]
    return {
        "dtype": dtype_name,
        "op": op,
        "form": form,
        "array_bytes": size_bytes,
        "kernel_gb_per_s": round(statistics.median(rates["kernel"]), 1),
        "copy_gb_per_s": round(statistics.median(rates["copy"]), 1),
        "torch_gb_per_s": round(statistics.median(rates["torch"]), 1),
        "ratio_to_copy": round(statistics.median(ratios), 3),
        "repeats": repeats,
        "calls": calls,
    }


def kernels(options: argparse.Namespace) -> None:
    """Measure every chosen case."""
    gpu = open_gpu(options.device, options.blocks_per_multiprocessor)
    where = {
        "gpu": gpu.name,
        "multiprocessors": gpu.multiprocessors,
        "blocks_per_multiprocessor": options.blocks_per_multiprocessor,
        "kernels_built_for": _core.cuda_library(cuda.library_path())[1],
        "torch_version": torch.__version__,
    }
    for size_bytes in options.sizes_bytes:
        for dtype in options.dtypes:
            for op in options.ops:
                for form in options.forms:
                    row = measure(
                        gpu, dtype, op, form, size_bytes=size_bytes, repeats=options.repeats
                    )
                    print(json.dumps({**row, **where}), flush=True)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Describe what can be chosen."""
    command.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    command.add_argument("--ops", nargs="+", choices=list(OPS), default=["sum"])
    command.add_argument("--forms", nargs="+", choices=list(FORMS), default=["separate"])
    command.add_argument("--sizes-bytes", nargs="+", type=int, default=SIZES_BYTES)
    command.add_argument("--repeats", type=int, default=9)
    command.add_argument("--device", type=int, default=0)
    command.add_argument("--blocks-per-multiprocessor", type=int, default=32)
    command.set_defaults(run=kernels)
