"""Is the late rank named, with the cause, and how soon?  One JSON line per case.

    python -m benchmarks.causes --ranks 4 8 --parts 0.05 0.2 1 --late-for 60

Trains layers that only sleep, 50 ms an iteration, with DDP over shared memory. In a case one rank
sleeps longer, by a part of that, between iterations (input), in the forward pass, or in the second
quarter of the backward pass; before each case nobody does for a while. `named` is whether the
largest finding at the end has that rank, cause and part; `after` how many late iterations it took
until it first was so; `others` how many findings speak of other ranks at the end. In the balanced
case nobody sleeps longer: `alarms` counts the iterations after which there was a finding.

What else a rank does is this machine's noise: fewer cores than ranks, or other work, make more.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import environment
from patallreduce.records.findings import Finding
from patallreduce.records.iterations import Iteration
from patallreduce.records.stragglers import straggler_report

PHASES_S = {"input": 0.005, "forward": 0.015, "backward": 0.0075}  # backward: of a quarter
ITERATION_S = PHASES_S["input"] + PHASES_S["forward"] + 4 * PHASES_S["backward"]
PART = "second quarter"
LAYERS = 8
LONGER_IN = 6  # ready before this layer's pause: the gradients of two layers of eight
WINDOW = 200  # iterations that are looked at in the balanced case

Record = dict[str, Any]


class Pause(torch.autograd.Function):
    """Hands its input on, and sleeps in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, pause_s: float) -> torch.Tensor:
        """Keep the time."""
        ctx.pause_s = pause_s
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Sleep."""
        time.sleep(ctx.pause_s)
        return gradients[0], None


class Sleeper(nn.Module):
    """Sleeps in the forward pass, and in each quarter of the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(LAYERS))
        self.longer_s = dict.fromkeys(PHASES_S, 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sleep, then compute."""
        time.sleep(PHASES_S["forward"] + self.longer_s["forward"])
        for index, layer in enumerate(self.layers):
            if index % 2 == 0:
                longer_s = self.longer_s["backward"] if index == LONGER_IN else 0.0
                x = Pause.apply(x, PHASES_S["backward"] + longer_s)  # type: ignore[no-untyped-call]
            x = layer(x)
        return x


class Job:
    """One rank's training."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.module = Sleeper()
        self.model = DistributedDataParallel(self.module)
        self.handle = pat.register(self.model)
        self.iterations = 0

    def run(self, iterations: int, phase: str = "input", longer_s: float = 0.0) -> None:
        """Train, longer in one phase."""
        self.module.longer_s = dict.fromkeys(PHASES_S, 0.0) | {phase: longer_s}
        for _ in range(iterations):
            time.sleep(PHASES_S["input"] + self.module.longer_s["input"])
            self.model(torch.ones(4, 64)).sum().backward()
        self.iterations += iterations

    def last(self, iterations: int) -> list[Iteration]:
        """The records of the last ones."""
        first = self.iterations - iterations
        return [i for i in self.handle.iterations() if i.iteration >= first]


def named(finding: Finding, rank: int, phase: str) -> bool:
    """Whether that is what was done to the job."""
    part = PART if phase == "backward" else ""
    return (finding.rank, finding.cause, finding.part) == (rank, phase, part)


def largest(iterations: Sequence[Iteration]) -> list[Finding]:
    """The findings, that of the longest time first."""
    return sorted(straggler_report(iterations).findings, key=lambda f: -f.longer_s)


def late_case(job: Job, rank: int, phase: str, part: float, options: Record) -> Record:
    """Let one rank be late for a while."""
    calm, late_for = options["calm"], options["late_for"]
    job.run(calm)
    job.run(late_for, phase, part * ITERATION_S * (dist.get_rank() == rank))
    time.sleep(ITERATION_S)  # for the last reports
    found: list[Finding] = []
    after = None
    if dist.get_rank() == 0:
        records = job.last(calm + late_for)
        for late in range(1, late_for + 1):
            found = largest(records[: calm + late])
            if after is None and found and named(found[0], rank, phase):
                after = late
    dist.barrier()
    return {
        "rank": rank,
        "cause": phase,
        "part": part,
        "named": bool(found) and named(found[0], rank, phase),
        "after": after,
        "others": sum(finding.rank != rank for finding in found),
        "found": list(map(str, found)),
    }


def balanced_case(job: Job, iterations: int) -> Record:
    """Let nobody be late."""
    job.run(iterations)
    time.sleep(ITERATION_S)
    records = job.last(iterations) if dist.get_rank() == 0 else []
    windows = [records[max(0, n - WINDOW) : n] for n in range(1, len(records) + 1)]
    alarms = [found for found in map(largest, windows) if found]
    dist.barrier()
    return {
        "cause": None,
        "iterations": iterations,
        "alarms": len(alarms),
        "found": sorted({f"{f.rank} {f.cause}" for found in alarms for f in found}),
    }


def cases(job: Job, options: Record) -> Iterator[Record]:
    """Go through all cases."""
    job.run(options["calm"])
    yield balanced_case(job, options["balanced"])
    late_ranks = options["late_ranks"] or range(dist.get_world_size())
    for part, phase, rank in itertools.product(options["parts"], options["causes"], late_ranks):
        yield late_case(job, rank, phase, part, options)


def be_rank(rank: int, ranks: int, folder: str, options: Record) -> None:
    """Measure; rank 0 prints."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    job = Job()
    where = environment()
    for record in cases(job, options):
        if rank == 0:
            print(json.dumps({"ranks": ranks, **record, "environment": where}), flush=True)
    job.handle.close()
    dist.destroy_process_group()


def main() -> None:
    """Run the ranks."""
    parser = command_line("causes", __doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--parts", type=float, nargs="+", default=[0.05, 0.2, 1.0])
    parser.add_argument("--causes", nargs="+", choices=[*PHASES_S], default=[*PHASES_S])
    parser.add_argument("--late-ranks", type=int, nargs="+", help="default: each")
    parser.add_argument("--late-for", type=int, default=60, help="iterations")
    parser.add_argument("--calm", type=int, default=20, help="iterations before each case")
    parser.add_argument("--balanced", type=int, default=1000, help="iterations, at most 1024")
    options = vars(parser.parse_args())
    context = multiprocessing.get_context("spawn")
    for ranks in options["ranks"]:
        with tempfile.TemporaryDirectory() as folder:
            running = [
                context.Process(target=be_rank, args=(rank, ranks, folder, options))
                for rank in range(ranks)
            ]
            for process in running:
                process.start()
            for process in running:
                process.join()
        if any(process.exitcode for process in running):
            sys.exit(1)


if __name__ == "__main__":
    main()
