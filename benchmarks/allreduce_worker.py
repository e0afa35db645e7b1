"""One rank of the all-reduce benchmark; `benchmarks.allreduce` starts it.

For every size and pattern of arrivals, `repeats` rounds; in every round the yardstick and then
each rival in turn (A B A B), so that what the machine does meanwhile hits all alike. A turn is:
an untimed call to open the connections' windows, fresh values, a start time agreed on the common
clock, the timed call(s), and outside the timing the check of every element and the gathering.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from .lab.ending import end_rank
from .lab.point_to_point import PointToPoint
from .measures import Sample, bandwidths_bytes_s, medians
from .rivals import Rival, make_rivals

# A prime: equal values in misplaced segments of any usual size would go unnoticed.
PATTERN = 4093
START_AHEAD_S = 0.03  # for the broadcast of the start time to reach every rank
SPIN_S = 0.0005  # before the start, where every rank has a core: sleep is 0.1 ms inexact
POINT_TO_POINT_PORT = 1  # added to MASTER_PORT


class Bench:
    """The ranks' agreement on starts and samples, over a group that no rival uses."""

    def __init__(self) -> None:
        self.control = dist.new_group(backend="gloo")
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self.spin_s = SPIN_S if self.ranks <= (os.cpu_count() or 1) else 0.0

    def values(self, elements: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Make one rank's values and the sum over all: whole numbers that float32 adds exactly.

        Every rank and index of a period has its own value, so a wrong or misplaced contribution
        shows. Below 2^24 for up to 88 ranks.
        """
        index = torch.arange(elements, dtype=torch.float64) % PATTERN
        expected = index * self.ranks + PATTERN * (self.ranks * (self.ranks - 1) // 2)
        return (index + PATTERN * self.rank).float(), expected.float()

    def sample(self, rival: Rival, buckets: list[torch.Tensor], arrivals_s: list[float]) -> Sample:
        """Time one call per bucket, all ranks starting at the times asked for."""
        start_s = self.agree_on_start() + arrivals_s[self.rank]
        time.sleep(max(0.0, start_s - self.spin_s - time.monotonic()))
        while time.monotonic() < start_s:
            pass
        arrival_s = time.monotonic()
        for bucket in buckets:
            rival.all_reduce(bucket, arrivals_s)
        return self.gather(arrival_s, time.monotonic(), calls=len(buckets))

    def gather(self, arrival_s: float, finish_s: float, calls: int = 1) -> Sample:
        """Put all ranks' times together."""
        times_s = torch.tensor([arrival_s, finish_s], dtype=torch.float64)
        gathered = [torch.empty_like(times_s) for _ in range(self.ranks)]
        dist.all_gather(gathered, times_s, group=self.control)
        return Sample(
            arrivals_s=[float(times[0]) for times in gathered],
            finishes_s=[float(times[1]) for times in gathered],
            calls=calls,
        )

    def agree_on_start(self) -> float:
        """Return a time just ahead, the same on every rank."""
        dist.barrier(group=self.control)
        start_s = torch.tensor(time.monotonic() + START_AHEAD_S, dtype=torch.float64)
        dist.broadcast(start_s, src=0, group=self.control)
        return float(start_s)


def check(rival: Rival, buckets: list[torch.Tensor], expected: torch.Tensor) -> None:
    """Compare every element of every result with the exact sum."""
    for call, bucket in enumerate(buckets):
        if not torch.equal(bucket, expected):
            wrong = torch.nonzero(bucket != expected).flatten()
            first = int(wrong[0])
            raise AssertionError(
                f"{rival.name}, rank {dist.get_rank()}, call {call}: {len(wrong)} of "
                f"{len(bucket)} elements wrong, first at {first}: expected "
                f"{expected[first]}, got {bucket[first]}"
            )


def run_case(
    bench: Bench,
    rivals: list[Rival],
    pair: PointToPoint | None,
    *,
    message_bytes: int,
    arrivals_s: list[float],
    repeats: int,
    calls: int,
) -> tuple[list[float], dict[str, list[Sample]]]:
    """Measure all rivals on one size and pattern; return M*beta's samples and each rival's."""
    values, expected = bench.values(message_bytes // 4)
    buckets = [values.clone() for _ in range(calls)]
    transfers_s: list[float] = []
    samples: dict[str, list[Sample]] = {rival.name: [] for rival in rivals}
    for _ in range(repeats):
        if pair is not None:
            transfers_s.append(pair.transfer(message_bytes))
        dist.barrier(group=bench.control)
        for rival in rivals:
            rival.all_reduce(buckets[0], arrivals_s)
            for bucket in buckets:
                bucket.copy_(values)
            samples[rival.name].append(bench.sample(rival, buckets, arrivals_s))
            check(rival, buckets, expected)
    return transfers_s, samples


def records(
    plan: dict[str, Any], bench: Bench, rivals: list[Rival], pair: PointToPoint | None
) -> Iterator[dict[str, Any]]:
    """Measure everything the plan asks for; one record per rival, size and pattern."""
    for message_bytes in plan["bytes"]:
        for late in plan["late"]:
            arrivals_s = [float(late.get(str(rank), 0.0)) for rank in range(bench.ranks)]
            balanced = max(arrivals_s) == 0.0
            # Back to back only when balanced: late calls would each need their own start.
            calls = min(plan["calls"], max(1, plan["calls_bytes"] // message_bytes))
            transfers_s, samples = run_case(
                bench,
                rivals,
                pair,
                message_bytes=message_bytes,
                arrivals_s=arrivals_s,
                repeats=plan["repeats"],
                calls=calls if balanced else 1,
            )
            for rival in rivals:
                figures = medians(samples[rival.name])
                record = {
                    "algorithm": rival.name,
                    "ranks": bench.ranks,
                    "bytes": message_bytes,
                    "late_rank": None if balanced else arrivals_s.index(max(arrivals_s)),
                    "delay_s": max(arrivals_s),
                    "arrivals_s": arrivals_s,
                    "network": plan["network"],
                    "transport": rival.transport,
                    "Mbeta_s": statistics.median(transfers_s) if transfers_s else None,
                    **figures,
                }
                if balanced:
                    record["algbw_bytes_s"], record["busbw_bytes_s"] = bandwidths_bytes_s(
                        message_bytes, bench.ranks, figures["average_elapsed_s"]
                    )
                yield {
                    **record,
                    "samples": [asdict(sample) for sample in samples[rival.name]],
                    "Mbeta_samples_s": transfers_s,
                    "environment": plan["environment"],
                }


def start_rank() -> int:
    """Join the other ranks in torch.distributed; return this one's number."""
    # Under mpirun ranks that share a host also share its environment.
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ["RANK"]))
    os.environ["RANK"] = str(rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return rank


def point_to_point(rank: int) -> PointToPoint:
    """Connect ranks 0 and 1, to time M*beta between them."""
    port = int(os.environ["MASTER_PORT"]) + POINT_TO_POINT_PORT
    return PointToPoint(sends=rank == 0, host=os.environ["MASTER_ADDR"], port=port)


def main() -> None:
    """Run this rank's part of the plan; rank 0, which also times M*beta, writes the results."""
    plan = json.loads(sys.argv[1])
    rank = start_rank()
    with ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        bench = Bench()
        rivals = make_rivals(plan["algorithms"], shared_memory=plan["shared_memory"])
        for rival in rivals:
            stack.callback(rival.close)
        pair = None
        if not plan["shared_memory"] and bench.ranks > 1 and rank < 2:
            pair = stack.enter_context(point_to_point(rank))
        with open(plan["results"] if rank == 0 else os.devnull, "a", encoding="utf-8") as results:
            for record in records(plan, bench, rivals, pair):
                results.write(json.dumps(record) + "\n")
                results.flush()
                if rank == 0:
                    late = f"rank {record['late_rank']} late" if record["delay_s"] else "balanced"
                    print(f"{record['algorithm']}, {record['bytes']} bytes, {late}: measured")


if __name__ == "__main__":
    main()
    end_rank()
