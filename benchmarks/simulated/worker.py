"""One rank of the benchmark of the simulator; `benchmarks.simulated` starts it.

Measures only, and writes down what a simulation needs to know: for calibration and for every cell
the schedule's parameters, the arrivals as they really were, and the finishes.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict

import torch
import torch.distributed as dist

import patallreduce as pat
from benchmarks.lab.measures import relative
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.rank import Bench, check, keep, start_rank
from patallreduce.ending import end_rank
from patallreduce.pricing.bucket import Bucket, parameters

from .calibration import CALLS
from .cells import DYNAMIC, FORESEEING, delays_s

WARM_UP = 1  # calls that open the connections' windows and compile schedules


class AllReduce:
    """One algorithm on one bucket under one pattern of arrivals, as every rank calls it."""

    transport = "ucx-tcp"

    def __init__(
        self, comm: pat.Communicator, name: str, bucket: Bucket, delays: list[float]
    ) -> None:
        self.name = name
        self.message_bytes = bucket.message_bytes
        self.delays = delays
        self.parameters = parameters(name, bucket)
        self.hints_s = delays if name in FORESEEING else None
        self._comm = comm
        self._schedule: pat.Schedule | None = None  # the very one that is simulated
        if name not in DYNAMIC:
            self._schedule = pat.schedule(
                name, bucket.ranks, arrivals_s=self.hints_s, **self.parameters
            )

    def all_reduce(self, bucket: torch.Tensor, arrivals_s: Sequence[float]) -> None:
        """Run it; `arrivals_s` are the delays that it was made with."""
        if self._schedule is not None:
            self._comm.all_reduce(bucket, schedule=self._schedule)
        else:
            segments = self.parameters["segments"]
            self._comm.all_reduce(bucket, algorithm=self.name, segments=segments)

    def edge(self, fraction: float) -> None:
        """Nothing: it predicts nothing."""

    def close(self) -> None:
        """Nothing: the communicator is the caller's."""


def measure(bench: Bench, call: AllReduce, iterations: int) -> Record:
    """Time some iterations, checking every sum; return the record."""
    values, expected = bench.values(call.message_bytes // 4)
    bucket = torch.empty_like(values)
    samples = []
    for _ in range(WARM_UP + iterations):
        bucket.copy_(values)
        samples.append(bench.sample(call, [bucket], call.delays))
        check(call, [bucket], expected)
    return {
        "algorithm": call.name,
        "bytes": call.message_bytes,
        "ranks": bench.ranks,
        **call.parameters,
        "hints_s": call.hints_s,
        "samples": [relative(sample) for sample in samples[WARM_UP:]],
    }


def records(plan: Plan, bench: Bench, comm: pat.Communicator) -> Iterator[Record]:
    """Calibrate and measure everything the plan asks for: one record each."""
    link = pat.calibrate(comm).link
    yield {
        "link": asdict(link),
        **{name: plan[name] for name in ("environment", "network", "seed", "delay")},
    }
    rounds = list(zip(plan["bytes"], plan["iterations"], strict=True))
    for number, (message_bytes, iterations) in enumerate(rounds):
        yield from calibration(bench, comm, link, number)
        for pattern in plan["patterns"]:
            seed = zlib.crc32(f"{plan['seed']} {pattern} {message_bytes}".encode())
            most_s = plan["delay"] * link.transfer_s(message_bytes)
            delays = delays_s(pattern, bench.ranks, most_s, seed)
            for algorithm in plan["algorithms"]:
                bucket = Bucket(bench.ranks, message_bytes, link)
                record = measure(bench, AllReduce(comm, algorithm, bucket, delays), iterations)
                yield {"pattern": pattern, "round": number, **record}
    yield from calibration(bench, comm, link, len(rounds))


def calibration(
    bench: Bench, comm: pat.Communicator, link: pat.Link, number: int
) -> Iterator[Record]:
    """Time the calls that tell the network's parameters, before the round of this number."""
    together_s = [0.0] * bench.ranks
    for name, (algorithm, message_bytes, segments, iterations) in CALLS.items():
        bucket = Bucket(bench.ranks, message_bytes, link, segments)
        record = measure(bench, AllReduce(comm, algorithm, bucket, together_s), iterations)
        yield {
            "call": name,
            "round": number,
            "reduce_bytes_per_s": link.reduce_bytes_per_s,
            **record,
        }


def main() -> None:
    """Run this rank's part of the plan; rank 0 writes the results."""
    plan = json.loads(sys.argv[1])
    start_rank()
    with ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        bench = Bench(plan)
        comm = stack.enter_context(pat.Communicator())

        def said(record: Record) -> str | None:
            """Tell of a pattern that is done, all its algorithms with it."""
            if record.get("algorithm") != plan["algorithms"][-1] or "pattern" not in record:
                return None
            return f"{record['bytes']} bytes, {record['pattern']}: measured"

        keep(plan, records(plan, bench, comm), said)
    end_rank()


if __name__ == "__main__":
    main()
