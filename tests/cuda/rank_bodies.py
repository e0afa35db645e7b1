"""What one rank of several on a GPU does: `run_processes` starts them.

A body takes a Rank and returns what it met, for JSON. tests/cuda/test_gpu_ranks.py starts them as
processes on a GPU; tests/gpu/test_rank_bodies.py runs them on threads, over fake libraries,
and as processes on the processor.
"""

import copy
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
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from benchmarks.lab.one_gpu import OneGpu
from patallreduce.communicator.gpu_calls import GpuWork
from tests.cuda.patterns import DTYPES, OPS

VICTIM = 1
DEADLINE_S = 5.0  # of collectives that cannot end
TEARDOWN_S = 20.0  # to give up a communicator and end a process
START_S = 60.0
COUNTS = [1, 1000, 70001]  # less than a segment each, some vectors, more than a block
DYNAMIC = {"slt_dynamic"}  # streams are given their work before ranks arrive
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

    def queue(self, bucket, op="sum", algorithm="ring", **options):
        """Start an all-reduce; its work."""
        return self.communicator.all_reduce(bucket, op, algorithm, True, **options)

    def finish(self, work):
        """Wait on the host until the result is there."""
        work.synchronize() if isinstance(work, GpuWork) else work.wait()

    def barrier(self):
        """Wait for all ranks."""
        self.finish(self.queue(torch.ones(1, device=self.device)))

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
    for algorithm in sorted({*pat.algorithms(collective="all_reduce")} - DYNAMIC):
        kinds = [(dtype, draw.choice(OPS), draw.choice(COUNTS)) for dtype in DTYPES]
        kinds.append((torch.float32, "sum", COUNTS[-1]))
        calls, works = [], []
        for dtype, op, count in kinds:
            call = Call(here, dtype, op, count, draw.getrandbits(30))
            segments = draw.choice([None, min(2 * here.ranks, count), min(3, count)])
            late = [draw.choice([0.0, 1.0, 2.5]) for _ in range(here.ranks)]
            options = {"segments": segments, "arrivals_s": draw.choice([None, late])}
            works.append(here.queue(call.bucket, op, algorithm, **options))
            calls.append(call)
        for work, call in zip(works, calls, strict=True):
            here.finish(work)
            if count := call.wrong():
                wrong.append(f"{algorithm}, {call.op} of {call.dtype}: {count} wrong elements")
            digest.update(call.bits())
            calls_made += 1
    return {"calls": calls_made, "wrong": wrong, "digest": digest.hexdigest()}


def sums_or_refusal(here):
    """As `sums`, where the transport takes the GPU's memory; else what it says."""
    try:
        here.barrier()
    except pat.TransportError as error:
        return {"refused": str(error)}
    return sums(here)


def resources(here):
    """What must not grow, when all ranks are idle."""
    here.barrier()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (threads,) = [line.split()[1] for line in status.splitlines() if line.startswith("Threads:")]
    native = here.communicator.session.gpus.of(here.device).native
    used_bytes = 0
    if here.device.type == "cuda":
        torch.cuda.synchronize()
        free_bytes, all_bytes = torch.cuda.mem_get_info()
        used_bytes = all_bytes - free_bytes
    return {
        "events": native.events,
        "scratch_bytes": native.memory_bytes,
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
            here.queue(bucket, "avg", algorithm).wait()
        if iteration % 5 == 4:
            here.barrier()
    took_s, after = time.monotonic() - started_s, resources(here)
    right = all(bool((bucket == 1).all()) for bucket in buckets)
    return {"before": before, "after": after, "right": right, "took_s": took_s}


def growth(met, iterations):
    """What has grown by more than it may: (before, after) by name, of what `endurance` met."""
    # How many of ten collectives are in flight, each with some ten events, is up to the host, and a
    # thread or a descriptor may come and go; a leak is one or more for each of 2 an iteration.
    few = iterations // 10
    may_grow = {"events": iterations, "threads": few, "descriptors": few, "scratch_bytes": 0}
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
        works = [here.queue(bucket, timeout_s=DEADLINE_S) for bucket in buckets]
        for work in works:
            here.finish(work)
    except pat.TransportError as error:
        named = getattr(error, "rank", None)
        met = {"raised": type(error).__name__, "text": str(error), "named": named}
    return {**met, "took_s": time.monotonic() - started_s}


def missing(here, how):
    """After a good collective one rank is gone: what the others meet, and once more afterwards."""
    others = [rank for rank in range(here.ranks) if rank != VICTIM]
    here.barrier()
    here.store.set(f"met/{here.rank}", "")
    if here.rank == VICTIM:
        here.wait_for("met", others)  # it had its own result before others had theirs
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


def parity(here, steps=100):
    """DDP with our hook beside a model that sees all ranks' data itself: how far they are apart."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)]
    model = torch.nn.Sequential(*layers).to(here.device)
    alone = copy.deepcopy(model)
    on_gpu = here.device.type == "cuda"
    ddp = DistributedDataParallel(
        model, device_ids=[here.device.index] if on_gpu else None, bucket_cap_mb=0.005
    )
    handle = pat.register(ddp)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (ddp, alone)]
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        shape = (here.ranks, 16, 32)
        inputs = torch.randn(shape, generator=generator).to(here.device)
        for optimizer in optimizers:
            optimizer.zero_grad()
        ddp(inputs[here.rank]).square().mean().backward()
        alone(inputs.flatten(0, 1)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    pairs = zip(ddp.parameters(), alone.parameters(), strict=True)
    apart = max(float((ours - other).detach().abs().max()) for ours, other in pairs)
    bits = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters())
    handle.close()
    return {"apart": apart, "digest": hashlib.sha256(bits).hexdigest()}


def run_processes(ranks, body, timeout_s, *, transport="nccl", device="cuda:0"):
    """Run a body on processes: what each rank met, None if it said nothing, and how it ended."""
    module = [sys.executable, "-m", "tests.cuda.rank_bodies"]
    with OneGpu(ranks) as one_gpu:
        command = [*module, body, str(timeout_s - 5), transport, device]
        results = one_gpu.run(command, timeout_s=timeout_s, check=False)
    met = []
    for result in results:
        lines = [line for line in result.output.splitlines() if line.startswith(RESULT)]
        met.append(json.loads(lines[0].removeprefix(RESULT)) if lines else None)
    return met, results


def assert_clean(results):
    """All ended well."""
    for result in results:
        assert result.exit_code == 0, result.output[-2000:]
        assert "Traceback" not in result.output
        assert "terminate called" not in result.output


def assert_gone(met, results, how):
    """The victim ended as it should, and all others met an error in time and ended well."""
    others = [rank for rank in range(len(met)) if rank != VICTIM]
    victim = results[VICTIM]
    assert victim.exit_code == (-signal.SIGKILL if how == "killed" else 0), victim.output
    assert_clean([results[rank] for rank in others])
    for rank in others:
        first, again = met[rank]["first"], met[rank]["again"]
        assert first["took_s"] < DEADLINE_S + TEARDOWN_S
        assert again["raised"] is not None
        assert again["took_s"] < 1.0
        if how == "silent":
            assert (first["raised"], first["named"]) == ("TransportTimeout", VICTIM)
            assert first["took_s"] > DEADLINE_S - 1
        else:  # UCX names who is gone; NCCL, where it is first to see it, does not
            assert first["raised"] in {"PeerLostError", "TransportError"}
            assert first["named"] in {VICTIM, None, -1}


def main():
    body, timeout_s, transport, on = sys.argv[1], float(sys.argv[2]), *sys.argv[3:]
    faulthandler.enable()
    faulthandler.dump_traceback_later(timeout_s, exit=True)  # shows where a hanging rank hangs
    device = torch.device(on)
    if on != "cpu":
        torch.cuda.set_device(device)
    timeout = datetime.timedelta(seconds=START_S)
    dist.init_process_group("gloo", timeout=timeout)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("bodies", dist.distributed_c10d._get_default_store())
    communicator = pat.Communicator(
        transport=transport, timeout_s=START_S, link=pat.Link(20e-6, 1e9)
    )
    met = globals()[body](Rank(rank, ranks, communicator, store, device))
    print(RESULT + json.dumps(met), flush=True)
    communicator.close()
    dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
