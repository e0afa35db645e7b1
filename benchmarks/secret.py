"""What do messages cost that strangers cannot forge?  One JSON line per size.

    python -m benchmarks.secret --ranks 2 --bytes 1KiB 64KiB 1MiB

The same ranks make a communicator without a secret and one with it in turns, over shared memory:
where the system puts its threads differs from one to the next and stays, so each round has new
ones. With each they do so many all-reduces ("ring"). Times are of one all-reduce, on rank 0;
`of_plain` is the ratio of the medians over the rounds, with a secret over without.
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


def seconds(link: pat.Link, tensor: torch.Tensor, calls: int) -> float:
    """Of one all-reduce, the mean of so many in a row on a new communicator."""
    with pat.Communicator(link=link, monitor=False) as communicator:
        for _ in range(20):
            communicator.all_reduce(tensor, algorithm="ring")
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
    for size_bytes in sizes:
        tensor = torch.zeros(size_bytes // 4)
        calls = max(20, min(1000, (16 << 20) // size_bytes))
        times_s: dict[str, list[float]] = {"plain": [], "proved": []}
        for _ in range(rounds):
            times_s["plain"].append(seconds(link, tensor, calls))
            os.environ["PATALLREDUCE_SECRET"] = SECRET
            times_s["proved"].append(seconds(link, tensor, calls))
            del os.environ["PATALLREDUCE_SECRET"]
        if rank == 0:
            print(json.dumps(row(ranks, size_bytes, calls, times_s)), flush=True)
    dist.destroy_process_group()


def row(
    ranks: int, size_bytes: int, calls: int, times_s: dict[str, list[float]]
) -> dict[str, object]:
    """What one size gave."""
    median_s = {name: statistics.median(of) for name, of in times_s.items()}
    return {
        "ranks": ranks,
        "bytes": size_bytes,
        "calls": calls,
        "median_s": median_s,
        "of_plain": median_s["proved"] / median_s["plain"],
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
