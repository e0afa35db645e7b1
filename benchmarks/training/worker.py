"""One rank of the training benchmark; `benchmarks.training` starts it."""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import register_multi_grad_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

import patallreduce as pat
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.point_to_point import PointToPoint
from benchmarks.lab.rank import keep, start_rank, yardstick
from patallreduce.ending import end_rank

from .models import CLASSES, REAL, layered, padded
from .patterns import factors, lateness

LEAVES = "leaves"
TUNING_FILE = "PATALLREDUCE_TUNING_FILE"
SEED = 1


class Job:
    """One model trained with one hook."""

    def __init__(self, hook: str, plan: Plan) -> None:
        torch.manual_seed(SEED)
        self.hook = hook
        if plan["model"] in REAL:
            self.module = REAL[plan["model"]]()
            self.ddp = DistributedDataParallel(self.module)
        elif plan["buckets"] == 0:
            self.module = padded(plan["bytes"])
            self.ddp = DistributedDataParallel(self.module)
        else:
            self.module = layered(plan["bytes"], plan["buckets"])
            # A bucket is full with its first layer: one byte less than that, against rounding.
            cap_mb = (4 * next(self.module.parameters()).numel() - 1) / 2**20
            self.ddp = DistributedDataParallel(self.module, bucket_cap_mb=cap_mb)
        self.handle = None
        ranks = dist.get_world_size()
        if hook == "reversed":  # the late rank is taken for the first
            arrivals_s = [1.0 - late for late in lateness("fixed", 0, ranks)]
            self.handle = pat.register(
                self.ddp, algorithm="slt", arrivals_s=arrivals_s, monitor=False
            )
        elif hook.startswith(LEAVES):
            self.handle = pat.register(self.ddp, leaves=int(hook.removeprefix(LEAVES)))
        elif hook != "gloo":
            # A fixed algorithm is the plain rival: nothing watches, nothing is predicted.
            watched = hook in ("auto", "tuned", "watched")
            algorithm = hook.rstrip("0123456789")
            segments = int(hook[len(algorithm) :]) if algorithm != hook else None
            algorithm = {"watched": "ring", "tuned": "auto"}.get(algorithm, algorithm)
            if hook == "tuned":
                os.environ[TUNING_FILE] = plan["tuning_file"]
            self.handle = pat.register(
                self.ddp, algorithm=algorithm, segments=segments, monitor=watched
            )
            os.environ.pop(TUNING_FILE, None)
        # A real model that learned its one batch by heart would compute with denormal numbers.
        rate = 1e-4 if plan["model"] in REAL else 0.01
        self.optimizer = SGD(self.ddp.parameters(), lr=rate, momentum=0.9)
        self._arrival_s = 0.0
        self.barrier = plan["barrier"]
        register_multi_grad_hook(tuple(self.ddp.parameters()), self._note_arrival)
        generator = torch.Generator().manual_seed(SEED + dist.get_rank())
        # What is on the images does not matter to when a step is done.
        self.images = torch.rand((plan["batch_size"], 3, 32, 32), generator=generator) * 2 - 1
        self.labels = torch.randint(CLASSES, (plan["batch_size"],), generator=generator)

    def _note_arrival(self, _: object) -> None:
        self._arrival_s = time.monotonic()

    @property
    def buckets(self) -> int:
        """How many DDP has made of its gradients, after its first iterations."""
        return len(self.ddp._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(","))

    def iterate(self, longer_s: float) -> tuple[float, float]:
        """Train one iteration; return arrival and finish."""
        self.optimizer.zero_grad()
        if self.handle is not None and self.hook.startswith(LEAVES):
            leaves = self.handle.leaves
            self.module.longer_s = longer_s / len(leaves)
            for leaf in leaves:
                of_leaf = slice(leaf - leaves.mine[0], None, len(leaves))
                self.compute(of_leaf)
        else:
            self.module.longer_s = longer_s
            self.compute(slice(None))
        finish_s = time.monotonic()
        self.optimizer.step()
        if self.barrier:
            dist.barrier()
        return self._arrival_s, finish_s

    def compute(self, images: slice) -> None:
        """Make a forward and a backward pass over some of this rank's images."""
        cross_entropy(self.ddp(self.images[images]), self.labels[images]).backward()


def run_block(job: Job, delay_s: Callable[[int], float], iterations: int) -> Tensor:
    """Train a block; return (iterations, ranks, 2): every rank's arrivals and finishes."""
    dist.barrier()
    rows = [job.iterate(delay_s(i)) for i in range(iterations)]
    mine = torch.tensor(rows, dtype=torch.float64)
    gathered = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, mine)
    return torch.stack(gathered, dim=1)


def figures(blocks: list[Tensor], late: list[list[int]], settled: int) -> Record:
    """Medians over the settled iterations of all blocks; times in seconds."""
    iteration_s, late_own_s, others_s, after_s, late_elapsed_s = [], [], [], [], []
    for times, late_ranks in zip(blocks, late, strict=True):
        arrivals, finishes = times[..., 0], times[..., 1]
        last = arrivals.amax(dim=1)
        for i in range(max(settled, 1), len(times)):
            iteration_s.append(float(last[i] - last[i - 1]))
            after_s.append(float(finishes[i].max() - last[i]))
            computed = (arrivals[i] - finishes[i - 1]).tolist()
            late_elapsed_s.append(float(finishes[i, late_ranks[i]] - arrivals[i, late_ranks[i]]))
            late_own_s.append(computed.pop(late_ranks[i]))
            others_s.append(max(computed))
    return {
        "iteration_s": statistics.median(iteration_s),
        "mean_iteration_s": statistics.fmean(iteration_s),
        "late_computation_s": statistics.median(late_own_s),
        "others_computation_s": statistics.median(others_s),
        "after_s": statistics.median(after_s),
        "late_elapsed_s": statistics.median(late_elapsed_s),
        "iterations_s": [round(s, 5) for s in iteration_s],
    }


def run_case(
    plan: Plan, jobs: list[Job], pattern: str, delay: float, pair: PointToPoint | None
) -> list[Record]:
    """Measure all hooks on one pattern and delay, in turns; return a record of each."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    blocks: dict[str, list[Tensor]] = {job.hook: [] for job in jobs}
    late: list[list[int]] = []
    transfers_s: list[float] = []
    planned: dict[str, int] = {}
    for block in range(plan["blocks"]):
        first = block * plan["iterations"]
        shares = [lateness(pattern, first + i, ranks) for i in range(plan["iterations"])]
        late.append([of.index(max(of)) for of in shares])
        if pair is not None:
            transfers_s.append(pair.transfer(plan["bytes"]))
        for job in jobs:

            def longer_s(i: int, shares: list[list[float]] = shares, first: int = first) -> float:
                own = factors(plan["jitter"], ranks, random.Random(SEED + first + i))[rank]
                return float(plan["computation_s"]) * own + delay * shares[i][rank]

            blocks[job.hook].append(run_block(job, longer_s, plan["iterations"]))
            if job.handle is not None:
                newest = min(20, plan["iterations"] * job.buckets)  # of this hook alone
                for stat in job.handle.communicator.stats()[-newest:]:
                    schedule = stat["schedule"]
                    ran = " ".join(schedule.split()[:4]) if schedule else "pending"
                    planned[f"{job.hook}: {ran}"] = planned.get(f"{job.hook}: {ran}", 0) + 1
    transfer_s = statistics.median(transfers_s) if transfers_s else 0.0
    records = []
    for job in jobs:
        found = figures(blocks[job.hook], late, plan["settled"])
        # Another late rank each time: it has its result one transfer after the last arrival, at
        # the earliest, since it must take in what depends on the one that was late before.
        again_s = transfer_s if pattern == "random" else 0.0
        bound_s = max(
            found["late_computation_s"] + again_s, found["others_computation_s"] + 2 * transfer_s
        )
        records.append(
            {
                "hook": job.hook,
                "pattern": pattern,
                "delay_s": delay,
                "ranks": ranks,
                "bytes": plan["bytes"],
                "model": plan["model"],
                "buckets": job.buckets,
                "network": plan["network"],
                "barrier": plan["barrier"],
                "Mbeta_s": transfer_s,
                "bound_s": bound_s,
                **found,
                "schedules": {k: v for k, v in planned.items() if k.startswith(job.hook + ":")},
                "environment": plan["environment"],
            }
        )
    return records


def records(plan: Plan, jobs: list[Job], pair: PointToPoint | None) -> Iterator[Record]:
    """Measure everything the plan asks for."""
    for job in jobs:
        run_block(job, lambda _: 0.0, 3)  # buckets are rebuilt after the first iteration
    for pattern in plan["patterns"]:
        for delay in plan["late"]:
            yield from run_case(plan, jobs, pattern, delay, pair)


def said(record: Record) -> str:
    """Tell of a case that is done."""
    return (
        f"{record['hook']}, {record['pattern']} rank late by {record['delay_s']:g} s: "
        f"{record['iteration_s'] * 1e3:.1f} ms per iteration"
    )


def main() -> None:
    """Run this rank's part of the plan; rank 0 writes the results."""
    plan = json.loads(sys.argv[1])
    start_rank()
    with ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        pair = yardstick(plan, stack)
        jobs = [Job(hook, plan) for hook in plan["hooks"]]
        keep(plan, records(plan, jobs, pair), said)
        for job in jobs:
            if job.handle is not None:
                job.handle.close()
    end_rank()


if __name__ == "__main__":
    main()
