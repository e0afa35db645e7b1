"""One rank of `benchmarks.changing`, which starts it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.rank import keep, start_rank
from benchmarks.training.worker import Job
from patallreduce.ending import end_rank

WARM_UP = 5


def set_rate(plan: Plan, rate: str) -> None:
    """Have the driver set the port's rate; no rank goes on before it has."""
    if dist.get_rank() == 0:
        wanted = Path(plan["results"] + ".rate")
        wanted.write_text(rate + "\n")
        while wanted.exists():
            time.sleep(0.002)
    dist.barrier()


def run(plan: Plan, hook: str) -> Record:
    """Train with one hook; times in seconds."""
    job = Job(hook, {**plan, "model": "sized", "batch_size": 8, "barrier": False})
    for _ in range(WARM_UP):
        job.iterate(plan["computation_s"])
    arrivals_s, schedules, rested_s = [], [], []
    for iteration in range(plan["iterations"] + 1):
        began_s = time.monotonic()
        if iteration == plan["at"]:
            set_rate(plan, plan["to"])
        elif iteration == plan["back"]:
            set_rate(plan, plan["network"])
        rested_s.append(time.monotonic() - began_s)
        arrivals_s.append(job.iterate(plan["computation_s"])[0])
        ran = job.handle.communicator.stats()[-1]["schedule"] if job.handle else ""
        schedules.append(ran.split()[0] if ran else hook)
    mine = torch.tensor([arrivals_s, rested_s], dtype=torch.float64)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    last_s = torch.stack([of[0] for of in every]).amax(dim=0)
    rested = torch.stack([of[1] for of in every]).amax(dim=0)
    if job.handle is not None:
        job.handle.close()
    # An iteration: from its last arrival, with its all-reduce, to the next one.
    times_s = last_s[1:] - last_s[:-1] - rested[1:]
    return {
        "hook": hook,
        "rank": plan["rank"],
        "to": plan["to"],
        "changes": [plan["at"], plan["back"]],
        "ranks": dist.get_world_size(),
        "bytes": plan["bytes"],
        "buckets": job.buckets,
        "network": plan["network"],
        "computation_s": plan["computation_s"],
        "iterations_s": [round(float(s), 5) for s in times_s],
        "schedules": schedules[:-1],
        "environment": plan["environment"],
    }


def records(plan: Plan) -> Iterator[Record]:
    """Train with each hook."""
    for hook in plan["hooks"]:
        yield run(plan, hook)


def main() -> None:
    """Run this rank's part of the plan; rank 0 writes the results."""
    plan = json.loads(sys.argv[1])
    start_rank()
    keep(plan, records(plan), lambda record: f"{record['hook']}: {plan['iterations']} iterations")
    dist.destroy_process_group()
    end_rank()


if __name__ == "__main__":
    main()
