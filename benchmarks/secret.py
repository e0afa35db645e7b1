"""What do messages cost that strangers cannot forge?  One JSON line per size.

    python -m benchmarks.secret --ranks 2 --bytes 1KiB 64KiB 1MiB

The same ranks have one communicator with a secret and one without, over shared memory, and take
turns between them: in each round so many all-reduces ("ring") with one, then with the other.
`of_plain` is the median over the rounds of the time of one all-reduce, with a secret over without,
on rank 0.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import patallreduce as pat
from benchmarks.lab.arguments import command_line, parse_bytes
from benchmarks.lab.environment import environment

SECRET = "known to all ranks of this benchmark"


def seconds(communicator: pat.Communicator, tensor: torch.Tensor, calls: int) -> float:
    """Of one all-reduce, the mean of so many in a row."""
    communicator.barrier()
    began_s = time.perf_counter()
    for _ in range(calls):
        communicator.all_reduce(tensor, algorithm="ring")
    return (time.perf_counter() - began_s) / calls


def be_rank(rank: int, ranks: int, folder: str, sizes: list[int], rounds: int) -> None:
    """Measure; rank 0 prints."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    link = pat.Link(20e-6, 2e9)  # nothing is chosen by it
    with pat.Communicator(link=link, monitor=False) as plain:
        os.environ["PATALLREDUCE_SECRET"] = SECRET
        with pat.Communicator(link=link, monitor=False) as proved:
            for size_bytes in sizes:
                tensor = torch.zeros(size_bytes // 4)
                calls = max(20, min(1000, (16 << 20) // size_bytes))
                times_s: dict[str, list[float]] = {"plain": [], "proved": []}
                for _ in range(rounds + 1):
                    times_s["plain"].append(seconds(plain, tensor, calls))
                    times_s["proved"].append(seconds(proved, tensor, calls))
                for measured in times_s.values():
                    del measured[0]  # the first round warms up
                if rank == 0:
                    print(json.dumps(row(ranks, size_bytes, calls, times_s)), flush=True)
    dist.destroy_process_group()


def row(
    ranks: int, size_bytes: int, calls: int, times_s: dict[str, list[float]]
) -> dict[str, object]:
    """What one size gave."""
    pairs = zip(times_s["proved"], times_s["plain"], strict=True)
    return {
        "ranks": ranks,
        "bytes": size_bytes,
        "calls": calls,
        "median_s": {name: statistics.median(of) for name, of in times_s.items()},
        "of_plain": statistics.median(proved / plain for proved, plain in pairs),
        "samples_s": times_s,
        "environment": environment(),
    }


def main() -> None:
    """Run the ranks."""
    parser = command_line("secret", __doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument(
        "--bytes", nargs="+", type=parse_bytes, default=[1 << 10, 64 << 10, 1 << 20]
    )
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        running = [
            context.Process(
                target=be_rank, args=(rank, options.ranks, folder, options.bytes, options.rounds)
            )
            for rank in range(options.ranks)
        ]
        for process in running:
            process.start()
        for process in running:
            process.join()
    sys.exit(any(process.exitcode for process in running))


if __name__ == "__main__":
    main()
