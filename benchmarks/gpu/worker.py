"""One rank of `benchmarks.gpu all-reduce`, which starts it.

For every size and pattern of arrivals, `repeats` rounds; in every round the yardstick M*beta, then
each rival in turn (A B A B). A turn: fresh random contributions in memory that held NaN, one event
that ties the GPU's clock to the machine's, a start agreed on that clock, on the late rank its
delay, an event at the arrival, the call(s), an event at the end; then, untimed, the check of every
element against a sum in float64 and the gathering of all ranks' times.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial

import torch
import torch.distributed as dist

from benchmarks.lab.measures import Sample, bandwidths_bytes_s, medians
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.rank import Bench, keep, start_rank
from patallreduce.clocks import Clock, GpuClock, HostClock, delay_cycles_per_s
from patallreduce.ending import end_rank

from .rivals import THEIRS, OurCommunicator, Ours, Rival, Theirs, facts

LOOKS = 20  # at both clocks before each turn
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def draw(seed: int, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """One rank's contribution to one call: the same on every rank that asks for it."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(count, generator=generator, device=device, dtype=torch.float32).to(dtype)


def wrong_elements(result: torch.Tensor, contributions: list[torch.Tensor]) -> int:
    """Count elements further from the float64 sum than P - 1 roundings can bring them."""
    exact = torch.zeros(len(result), dtype=torch.float64, device=result.device)
    magnitude = torch.zeros_like(exact)
    for contribution in contributions:
        exact += contribution.double()
        magnitude += contribution.double().abs()
    unit = torch.finfo(result.dtype).eps / 2
    bound = 1.01 * (len(contributions) - 1) * unit * magnitude
    return int((~((result.double() - exact).abs() <= bound)).sum())  # so that NaN is wrong


class Turns:
    """The ranks' agreement on starts and times; tensors on one device."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self.bench = Bench(plan)
        self.device = device
        self.dtype = getattr(torch, plan["dtype"])
        self.delay_by = plan["delay_by"]
        self.clock = self._calibrated() if device.type == "cuda" else HostClock()
        self._seed = 1

    def _calibrated(self) -> Clock:
        """Let rank 0 measure the delay kernel, with the device to itself."""
        dist.barrier(group=self.bench.control)
        measured = torch.zeros(1, dtype=torch.float64)
        if self.bench.rank == 0:
            measured[0] = delay_cycles_per_s()
        dist.broadcast(measured, src=0, group=self.bench.control)
        return GpuClock(float(measured), tries=LOOKS)

    def take(
        self, rival: Rival, buckets: list[torch.Tensor], arrivals_s: list[float]
    ) -> tuple[Sample, int]:
        """Time one call per bucket; the sample, and how many elements of this rank are wrong."""
        first_seed, ranks = self._seed, self.bench.ranks
        self._seed += len(buckets) * ranks
        for call, bucket in enumerate(buckets):
            bucket.fill_(torch.nan)
            seed = first_seed + call * ranks + self.bench.rank
            bucket.copy_(draw(seed, len(bucket), self.dtype, bucket.device))
        known = arrivals_s if max(arrivals_s) > 0 else None

        def work() -> None:
            for bucket in buckets:
                rival.all_reduce(bucket, known)

        sample = self.time(work, arrivals_s[self.bench.rank], calls=len(buckets))
        rival.check()
        wrong = 0
        for call, bucket in enumerate(buckets):
            seeds = range(first_seed + call * ranks, first_seed + (call + 1) * ranks)
            given = [draw(seed, len(bucket), self.dtype, bucket.device) for seed in seeds]
            wrong += wrong_elements(bucket, given)
        return sample, wrong

    def time(self, work: Callable[[], object], delay_s: float, calls: int = 1) -> Sample:
        """Queue `work` on all ranks, behind this rank's delay; the times on the stream."""
        self.clock.start()
        start_s = self.bench.agree_on_start()
        time.sleep(max(0.0, start_s - time.monotonic()))
        if delay_s > 0 and self.delay_by == "host":
            time.sleep(delay_s)
        elif delay_s > 0:
            self.clock.delay(delay_s)
        arrival = self.clock.mark()
        work()
        finish = self.clock.mark()
        times_s = self.clock.seconds(arrival), self.clock.seconds(finish)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return self.bench.gather(*times_s, calls=calls)


def run_case(
    turns: Turns,
    rivals: list[Rival],
    theirs: Theirs | None,
    *,
    message_bytes: int,
    arrivals_s: list[float],
    repeats: int,
    calls: int,
) -> tuple[list[float], dict[str, list[Sample]], dict[str, int]]:
    """Measure all rivals on one size and pattern: samples of M*beta, of each, wrong elements."""
    count = message_bytes // turns.dtype.itemsize
    buckets = [torch.empty(count, dtype=turns.dtype, device=turns.device) for _ in range(calls)]
    transfers_s: list[float] = []
    samples: dict[str, list[Sample]] = {rival.name: [] for rival in rivals}
    wrong = dict.fromkeys(samples, 0)
    for number in range(repeats + 1):
        # In the first round connections, kernels and programs are made: it is not counted.
        if theirs is not None:
            sample = turns.time(partial(theirs.transfer, buckets[0]), 0.0)
            transfers_s += [sample.finishes_s[1] - max(sample.arrivals_s[:2])] if number else []
        for rival in rivals:
            sample, its_wrong = turns.take(rival, buckets, arrivals_s)
            samples[rival.name] += [sample] if number else []
            wrong[rival.name] += its_wrong
    return transfers_s, samples, wrong


def record(
    plan: Plan,
    name: str,
    samples: dict[str, list[Sample]],
    transfers_s: list[float],
    *,
    message_bytes: int,
    arrivals_s: list[float],
    wrong: int,
) -> Record:
    """One rival's line, with the median of its ratios to NCCL within the rounds."""
    mine, ranks = samples[name], len(arrivals_s)
    late = max(arrivals_s) > 0
    measure = "after_s" if late else "average_elapsed_s"
    figures = medians(mine)
    time_s = figures["average_elapsed_s"]
    algbw, busbw = bandwidths_bytes_s(message_bytes, ranks, time_s)
    ratio = None
    if THEIRS in samples:
        pairs = zip(mine, samples[THEIRS], strict=True)
        ratio = statistics.median(getattr(m, measure) / getattr(t, measure) for m, t in pairs)
    return {
        "algorithm": name,
        "ranks": ranks,
        "bytes": message_bytes,
        "count": message_bytes // getattr(torch, plan["dtype"]).itemsize,
        "dtype": plan["dtype"],
        "redop": "sum",
        "wrong": wrong,
        "late_rank": arrivals_s.index(max(arrivals_s)) if late else None,
        "delay_s": max(arrivals_s),
        "delay_by": plan["delay_by"] if late else None,
        "arrivals_s": arrivals_s,
        "transport": THEIRS if name == THEIRS else plan["transport"],
        "network": "nccl sockets, one GPU" + (", MPS" if plan["mps"] else ""),
        "Mbeta_s": statistics.median(transfers_s) if transfers_s else None,
        **figures,
        "algbw_bytes_s": None if late else algbw,
        "busbw_bytes_s": None if late else busbw,
        "ratio_to_nccl": ratio,
        "ratio_of": measure,
        "samples": [asdict(sample) for sample in mine],
        "Mbeta_samples_s": transfers_s,
        "environment": plan["environment"],
    }


def records(
    plan: Plan, turns: Turns, rivals: list[Rival], theirs: Theirs | None
) -> Iterator[Record]:
    """Run every case; one record per rival as soon as a case is done."""
    ranks = turns.bench.ranks
    for message_bytes in plan["bytes"]:
        for late in plan["late"]:
            arrivals_s = [float(late.get(str(rank), 0.0)) for rank in range(ranks)]
            balanced = max(arrivals_s) == 0.0
            transfers_s, samples, wrong = run_case(
                turns,
                rivals,
                theirs,
                message_bytes=message_bytes,
                arrivals_s=arrivals_s,
                repeats=plan["repeats"],
                calls=plan["calls"] if balanced else 1,
            )
            counts = torch.tensor([wrong[rival.name] for rival in rivals])
            dist.all_reduce(counts, group=turns.bench.control)
            for rival, its_wrong in zip(rivals, counts.tolist(), strict=True):
                line = record(
                    plan,
                    rival.name,
                    samples,
                    transfers_s,
                    message_bytes=message_bytes,
                    arrivals_s=arrivals_s,
                    wrong=its_wrong,
                )
                yield {**line, "clock_width_s": turns.clock.width_s}


def said(record: Record) -> str:
    """Tell of a case that is done."""
    return f"{record['ranks']} ranks, {record['bytes']} bytes, {record['algorithm']}: measured"


def main() -> None:
    """Run this rank's part of the plan."""
    plan = json.loads(sys.argv[1])
    device = torch.device("cpu")
    if not plan["rehearse"]:
        device = torch.device("cuda", 0)
        torch.cuda.set_device(device)
    rank = start_rank()
    with ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        turns = Turns(plan, device)
        theirs = Theirs(device)
        communicator = OurCommunicator(plan["transport"])
        stack.callback(communicator.close)
        plan["environment"].update(facts(device))
        plan["environment"]["nccl_settings"] = {
            name: value for name, value in os.environ.items() if name.startswith("NCCL_")
        }
        rivals: list[Rival] = [
            theirs if name == THEIRS else Ours(communicator, name) for name in plan["algorithms"]
        ]
        if rank == 0:
            print(f"{turns.bench.ranks} ranks: connected", flush=True)
        keep(plan, records(plan, turns, rivals, theirs if plan["transfer"] else None), said)
    end_rank()


if __name__ == "__main__":
    main()
