"""One rank of the all-reduce benchmark; `benchmarks.allreduce` starts it.

For every size and pattern of arrivals, `repeats` rounds; in every round the yardstick and then
each rival in turn (A B A B), so that what the machine does meanwhile hits all alike. A turn is:
a call that does not count, to open the connections' windows, with the same ranks late so that
whoever predicts arrivals may; fresh values, a start time agreed on the common clock, at once or
after the pause asked for; the call(s) that count, and outside the timing the check of every element
and the gathering.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict

import torch.distributed as dist

from benchmarks.lab.measures import Sample, bandwidths_bytes_s, medians
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.point_to_point import PointToPoint
from benchmarks.lab.rank import START_AHEAD_S, Bench, check, run_rivals
from benchmarks.lab.rivals import Rival

# Where calls take microseconds many are timed together; each has a bucket of its own.
SHARED_MEMORY_CALLS, CALLS_BYTES = 50, 4 << 20


def run_case(
    bench: Bench,
    rivals: list[Rival],
    pair: PointToPoint | None,
    *,
    message_bytes: int,
    arrivals_s: list[float],
    repeats: int,
    calls: int,
    pause_s: float,
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
            bench.call(rival, buckets[:1], arrivals_s)
            for bucket in buckets:
                bucket.copy_(values)
            times_s = bench.call(rival, buckets, arrivals_s, START_AHEAD_S + pause_s)
            samples[rival.name].append(bench.gather(*times_s, calls=len(buckets)))
            check(rival, buckets, expected)
    return transfers_s, samples


def records(
    plan: Plan, bench: Bench, rivals: list[Rival], pair: PointToPoint | None
) -> Iterator[Record]:
    """Measure everything the plan asks for; one record per rival, size and pattern."""
    for message_bytes in plan["bytes"]:
        for late in plan["late"]:
            arrivals_s = [float(late.get(str(rank), 0.0)) for rank in range(bench.ranks)]
            balanced = max(arrivals_s) == 0.0
            # Back to back only when balanced: late calls would each need their own start.
            many = SHARED_MEMORY_CALLS if plan["shared_memory"] else 1
            calls = min(many, max(1, CALLS_BYTES // message_bytes))
            transfers_s, samples = run_case(
                bench,
                rivals,
                pair,
                message_bytes=message_bytes,
                arrivals_s=arrivals_s,
                repeats=plan["repeats"],
                calls=calls if balanced else 1,
                pause_s=plan["pause_s"],
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
                    "pause_s": plan["pause_s"],
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


def said(record: Record) -> str:
    """Tell of a case that is done."""
    late = f"rank {record['late_rank']} late" if record["delay_s"] else "balanced"
    return f"{record['algorithm']}, {record['bytes']} bytes, {late}: measured"


if __name__ == "__main__":
    run_rivals(records, said)
