"""One rank of the tree sum's benchmark; `benchmarks.tree_sum` starts it."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist

import patallreduce as pat
from benchmarks.lab.plan import Record
from benchmarks.lab.rank import keep, start_rank
from patallreduce.ending import end_rank

WARM_UP = 20
START_AHEAD_S = 200e-6


def mpi_rival(part: torch.Tensor) -> Callable[[], object]:
    """A local sum and MPI_Allreduce of one number."""
    mpi: Any = import_module("mpi4py.MPI")
    result = torch.empty(1, dtype=torch.float64).numpy()

    def call() -> None:
        local = part.sum().numpy()
        mpi.COMM_WORLD.Allreduce(local, result)

    return call


def gloo_rival(part: torch.Tensor) -> Callable[[], object]:
    """The same with torch.distributed."""
    return lambda: dist.all_reduce(part.sum())


def sample_s(call: Callable[[], object], agree: Callable[[], float]) -> tuple[float, float]:
    """Begin at the agreed time; when that was and when this rank had the result."""
    start_s = agree()
    while time.monotonic() < start_s:
        pass
    call()
    return start_s, time.monotonic()


def measure(communicator: pat.Communicator, rival: str, elements: int, repeats: int) -> Record:
    """Time both by turns; the record, complete on every rank."""
    ranks, rank = communicator.ranks, communicator.rank
    counts = pat.distributions.even_upper(elements, ranks)
    torch.manual_seed(0)
    part = torch.randn(elements, dtype=torch.float64).split(counts)[rank].clone()
    calls: dict[str, Callable[[], object]] = {
        "tree_sum": lambda: communicator.tree_sum(part),
        rival: mpi_rival(part) if rival == "openmpi" else gloo_rival(part),
    }
    start = torch.zeros(1, dtype=torch.float64)

    def agree() -> float:
        # Nobody is earlier than the latest of these, and all are awake when it comes.
        start[0] = time.monotonic() + START_AHEAD_S
        communicator.all_reduce(start, "max", "recursive_doubling", segments=1)
        return float(start[0])

    times_s: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(repeats + WARM_UP):
        for name, call in calls.items():
            sample = sample_s(call, agree)
            if turn >= WARM_UP:
                times_s[name].append(sample)
    medians_s = {}
    elapsed_s = {}
    for name, taken in times_s.items():
        own = torch.tensor(taken, dtype=torch.float64)
        finishes = own[:, 1].contiguous()
        communicator.all_reduce(finishes, "max", "ring")
        elapsed_s[name] = finishes - own[:, 0]
        medians_s[f"{name}_s"] = float(elapsed_s[name].median())
    ratios = (elapsed_s["tree_sum"] / elapsed_s[rival]).tolist()
    return {
        "case": "tree_sum",
        "elements": elements,
        "ranks": ranks,
        "transport": communicator.transport,
        "rival": rival,
        **medians_s,
        "ratio": round(statistics.median(ratios), 3),
        "repeats": repeats,
    }


def main() -> None:
    """Measure what the plan says; rank 0 writes."""
    plan = json.loads(sys.argv[1])
    rival = plan["algorithms"][1]
    start_rank()
    with pat.Communicator(monitor=False) as communicator:
        measured = (
            measure(communicator, rival, elements, plan["repeats"]) for elements in plan["elements"]
        )
        keep(plan, ({**record, "environment": plan["environment"]} for record in measured), said)
        dist.barrier()
    dist.destroy_process_group()
    if rival == "openmpi":
        # end_rank() leaves without Python's ending, in which mpi4py would do this.
        import_module("mpi4py.MPI").Finalize()
    end_rank()


def said(record: Record) -> str:
    """Tell what was found, without where."""
    return json.dumps({name: value for name, value in record.items() if name != "environment"})


if __name__ == "__main__":
    main()
