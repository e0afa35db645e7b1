"""What does a sum with the same bits on any number of ranks cost?  Prints one JSON line per case.

    python -m benchmarks.tree_sum --elements 1048576 --ranks 2

First, in this process: the tree over one rank's elements against torch's and numpy's sum and a
memcpy of as many bytes. Then between ranks, by turns: `tree_sum`, and what it replaces, a local sum
(torch's) and an all-reduce of one number: Open MPI's MPI_Allreduce where mpirun and mpi4py are
installed, else Gloo's. A sample is one call on all ranks that start together, to its last finish;
medians, and the median of the ratios within one turn, because other processes come and go.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import environment
from benchmarks.lab.openmpi import openmpi_missing
from benchmarks.lab.plan import SHARED_MEMORY, Record, run_plan, write_records
from benchmarks.reduction import seconds
from patallreduce import _core

TIMEOUT_S = 600.0


def local(elements: int, repeats: int) -> Record:
    """Time one rank's part by turns; `elements` is a power of two."""
    values = torch.randn(elements, dtype=torch.float64)
    copied = torch.empty_like(values)
    array, target = values.numpy(), copied.numpy()
    out = torch.empty(1, dtype=torch.float64)
    level = elements.bit_length() - 1

    def tree() -> None:
        _core.subtree(out.data_ptr(), values.data_ptr(), level, 1, "float64", "sum")

    rivals: dict[str, Callable[[], object]] = {
        "tree": tree,
        "torch_sum": values.sum,
        "numpy_sum": array.sum,
        "memcpy": lambda: target.__setitem__(slice(None), array),
    }
    calls = max(1, (4 << 20) // values.nbytes)
    samples_s: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repeats):
        for name, call in rivals.items():
            samples_s[name].append(seconds(call, calls))
    pairs = zip(samples_s["tree"], samples_s["torch_sum"], strict=True)
    return {
        "case": "local",
        "elements": elements,
        "bytes": values.nbytes,
        "vector_level": _core.vector_level(),
        **{f"{name}_s": statistics.median(samples_s[name]) for name in rivals},
        "tree_over_torch_sum": round(statistics.median(a / b for a, b in pairs), 3),
        "repeats": repeats,
    }


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("tree_sum", __doc__)
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 20], help="on all ranks")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--results", type=Path, default=Path("out/tree_sum.jsonl"))
    return parser.parse_args()


def main() -> None:
    """Measure both, print and keep the records."""
    options = parse_arguments()
    torch.set_num_threads(1)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    records = []
    for elements in options.elements:
        part = 1 << max(elements // options.ranks, 1).bit_length() - 1
        record = local(part, max(options.repeats // 10, 5))
        print(json.dumps(record), flush=True)
        records.append({**record, "environment": environment()})
    plan = {
        "elements": options.elements,
        "repeats": options.repeats,
        "algorithms": ["tree_sum", "gloo" if openmpi_missing() else "openmpi"],
        "network": SHARED_MEMORY,
        "results": str(options.results.resolve()),
        "timeout_s": TIMEOUT_S,
        "environment": environment(),
    }
    start_s = time.monotonic()
    records += run_plan(plan, [options.ranks], "benchmarks.tree_sum.worker")
    write_records(options.results, records)
    print(f"records: {options.results.resolve()} ({time.monotonic() - start_s:.0f} s)")


if __name__ == "__main__":
    main()
