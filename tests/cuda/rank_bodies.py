"""What one rank of several on a GPU does: `python -m tests.cuda.rank_bodies BODY` is such a rank.

A body takes a Rank and returns what it met, for JSON. tests/cuda/test_gpu_ranks.py starts them as
processes on a GPU; tests/streams/test_rank_bodies.py runs them on threads, over played libraries.
"""

import datetime
import faulthandler
import hashlib
import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.stream_communicator import StreamCommunicator
from tests.cuda.patterns import DTYPES, OPS

VICTIM = 1
DEADLINE_S = 5.0  # of collectives that cannot end
START_S = 60.0
COUNTS = [1, 1000, 70001]  # less than a segment each, some vectors, more than a block
GUARD = 64  # elements before and behind a bucket
RESULT = "RESULT "


@dataclass
class Rank:
    """Who a body is."""

    rank: int
    ranks: int
    communicator: Any
    store: Any
    device: torch.device

    def barrier(self):
        """Wait for all ranks."""
        self.communicator.all_reduce(torch.ones(1, device=self.device)).synchronize()

    def wait_for(self, key, ranks):
        """Wait until these ranks have set a key."""
        keys = [f"{key}/{rank}" for rank in ranks]
        self.store.wait(keys, datetime.timedelta(seconds=START_S))


class Call:
    """One all-reduce of fresh random contributions, in the middle of poisoned memory."""

    def __init__(self, here, dtype, op, count, seed):
        self.op, self.dtype = op, dtype
        generator = torch.Generator().manual_seed(seed)
        shape = (here.ranks, count)
        if dtype.is_floating_point:
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            self.given = (drawn.abs() / 2 + 0.5 if op == "prod" else drawn).to(dtype)
        else:
            self.given = torch.randint(0, 100, shape, generator=generator).to(dtype)
        poison = torch.nan if dtype.is_floating_point else 77
        self.poison = torch.full((GUARD,), poison, dtype=dtype)
        self.arena = torch.full((count + 2 * GUARD,), poison, dtype=dtype, device=here.device)
        self.bucket = self.arena[GUARD:-GUARD]
        self.bucket.copy_(self.given[here.rank])

    def expected(self):
        """The result in float64, or int64, and by how much roundings may miss it."""
        ranks, floats = len(self.given), self.dtype.is_floating_point
        wide = self.given.to(torch.float64 if floats else torch.int64)
        if self.op in {"min", "max"}:
            return (wide.amin(0) if self.op == "min" else wide.amax(0)), 0.0
        exact = wide.prod(0) if self.op == "prod" else wide.sum(0)
        if not floats:
            exact = exact.to(self.dtype)  # modulo
            if self.op == "avg":
                exact = torch.div(exact, ranks, rounding_mode="trunc")
            return exact.to(torch.int64), 0.0
        magnitude = exact.abs() if self.op == "prod" else wide.abs().sum(0)
        bound = 2 * ranks * torch.finfo(self.dtype).eps / 2 * magnitude
        return (exact / ranks, bound / ranks) if self.op == "avg" else (exact, bound)

    def wrong(self):
        """How many elements are wrong, those around the bucket included."""
        arena = self.arena.cpu()
        exact, bound = self.expected()
        found = arena[GUARD:-GUARD].to(exact.dtype)
        outside = torch.cat([arena[:GUARD], arena[-GUARD:]])
        poison = torch.cat([self.poison] * 2)
        spoilt = ~torch.isclose(outside, poison, rtol=0.0, atol=0.0, equal_nan=True)
        return int((~((found - exact).abs() <= bound)).sum()) + int(spoilt.sum())

    def bits(self):
        return self.bucket.cpu().contiguous().view(torch.uint8).numpy().tobytes()


def sums(here, seed=1):
    """Every algorithm, on all dtypes in flight at once: what was wrong, and a hash of all bits."""
    draw = random.Random(seed)  # ranks draw alike
    wrong, digest, calls_made = [], hashlib.sha256(), 0
    for algorithm in pat.algorithms(collective="all_reduce"):
        kinds = [(dtype, draw.choice(OPS), draw.choice(COUNTS)) for dtype in DTYPES]
        kinds.append((torch.float32, "sum", COUNTS[-1]))
        calls, works = [], []
        for dtype, op, count in kinds:
            call = Call(here, dtype, op, count, draw.getrandbits(30))
            segments = draw.choice([None, 2 * here.ranks, 3])
            late = [draw.choice([0.0, 1.0, 2.5]) for _ in range(here.ranks)]
            arrivals_s = draw.choice([None, late])
            works.append(
                here.communicator.all_reduce(
                    call.bucket, op, algorithm, segments=segments, arrivals_s=arrivals_s
                )
            )
            calls.append(call)
        for work, call in zip(works, calls, strict=True):
            work.synchronize()
            if count := call.wrong():
                wrong.append(f"{algorithm}, {call.op} of {call.dtype}: {count} wrong elements")
            digest.update(call.bits())
            calls_made += 1
    return {"calls": calls_made, "wrong": wrong, "digest": digest.hexdigest()}


def resources(here):
    """What must not grow, when all ranks are idle."""
    here.barrier()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (threads,) = [line.split()[1] for line in status.splitlines() if line.startswith("Threads:")]
    executor = here.communicator._executor
    used_bytes = 0
    if here.device.type == "cuda":
        torch.cuda.synchronize()
        free_bytes, all_bytes = torch.cuda.mem_get_info()
        used_bytes = all_bytes - free_bytes
    return {
        "events": executor.events,
        "scratch_bytes": executor.memory_bytes,
        "device_bytes": used_bytes,  # of all ranks together
        "threads": int(threads),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def endurance(here, iterations=1000):
    """Iterations of two buckets in flight: what there was after a tenth of them, and in the end."""
    buckets = [torch.ones(count, device=here.device) for count in (1000, 70001)]
    before, started_s = {}, time.monotonic()
    for iteration in range(iterations):
        if iteration == iterations // 10:
            before = resources(here)
        algorithm = ["recursive_doubling", "slt"][iteration % 20 == 0]
        for bucket in buckets:
            here.communicator.all_reduce(bucket, "avg", algorithm).wait()
        if iteration % 10 == 9:
            here.barrier()
    took_s, after = time.monotonic() - started_s, resources(here)
    right = all(bool((bucket == 1).all()) for bucket in buckets)
    return {"before": before, "after": after, "right": right, "took_s": took_s}


def growth(met, iterations):
    """What has grown by more than it may: (before, after) by name, of what `endurance` met."""
    may_grow = dict.fromkeys(met["before"], 0)
    # How many collectives are in flight, and so have events, is up to the host.
    may_grow["events"] = iterations // 10
    may_grow["device_bytes"] = 8 << 20  # others may use the GPU
    pairs = {name: (before, met["after"][name]) for name, before in met["before"].items()}
    return {
        name: (before, after)
        for name, (before, after) in pairs.items()
        if after - before > may_grow[name]
    }


def attempt(here):
    """Three collectives in flight that cannot end: what they raised, and when."""
    started_s = time.monotonic()
    met = {"raised": None}
    try:
        buckets = [torch.ones(1000, device=here.device) for _ in range(3)]
        works = [here.communicator.all_reduce(b, timeout_s=DEADLINE_S) for b in buckets]
        for work in works:
            work.synchronize()
    except pat.TransportError as error:
        met = {"raised": type(error).__name__, "text": str(error)}
    return {**met, "took_s": time.monotonic() - started_s}


def missing(here, how):
    """After a good collective one rank is gone: what the others meet, and once more afterwards."""
    others = [rank for rank in range(here.ranks) if rank != VICTIM]
    here.barrier()
    if here.rank == VICTIM:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        here.wait_for("over", others)
        return {}
    first, again = attempt(here), attempt(here)
    here.communicator.close()
    here.store.set(f"over/{here.rank}", "")
    here.wait_for("over", others)  # rank 0 has the store
    return {"first": first, "again": again}


def killed(here):
    return missing(here, "killed")


def silent(here):
    return missing(here, "silent")


def main():
    body, timeout_s = sys.argv[1], float(sys.argv[2])
    faulthandler.enable()
    faulthandler.dump_traceback_later(timeout_s, exit=True)  # shows where a hanging rank hangs
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    store = dist.TCPStore(
        "127.0.0.1",
        int(os.environ["MASTER_PORT"]),
        ranks,
        is_master=rank == 0,
        timeout=datetime.timedelta(seconds=START_S),
    )
    communicator = StreamCommunicator(store, rank, ranks, device, timeout_s=START_S)
    here = Rank(rank, ranks, communicator, store, device)
    met = globals()[body](here)
    print(RESULT + json.dumps(met), flush=True)
    communicator.close()
    if body not in {"killed", "silent"}:
        store.set(f"closed/{rank}", "")
        if rank == 0:
            here.wait_for("closed", range(ranks))  # the store's last use
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
