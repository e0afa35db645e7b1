"""One rank of the arrivals benchmark; `benchmarks.arrivals` starts it.

All algorithms share one communicator. Only auto's calls pass through its monitor, so auto's
iterations follow each other there, whatever runs between them here; each case begins with a few
that are not timed, since every case is a new job to a predictor.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from benchmarks.lab.measures import Sample, medians, relative
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.point_to_point import PointToPoint
from benchmarks.lab.rank import Bench, check, run_rivals
from benchmarks.lab.rivals import Patallreduce, Rival
from patallreduce import patterns

MODES = ("one-late", "rand-late")  # the paper's
# Of CLV16 (`patallreduce.patterns`): ranks, largest delay and seed to delays. Cut at the largest
# delay, which the emulated computation reckons with.
PATTERNS: dict[str, Callable[[int, float, str], list[float]]] = {
    # Not CLV16's: where chains and rings both do badly.
    "three-late": lambda ranks, most_s, _: [most_s * (r >= ranks - 3) for r in range(ranks)],
    "alternating": lambda ranks, most_s, _: patterns.alternating(ranks, 0.0, most_s),
    "normal": lambda ranks, most_s, seed: patterns.normal(ranks, most_s / 4, seed=seed),
    "gamma": lambda ranks, most_s, seed: patterns.gamma(ranks, most_s / 4, seed=seed),
    "bernoulli": lambda ranks, most_s, seed: patterns.bernoulli(
        ranks, most_s, 1 / ranks, seed=seed
    ),
}
LATE_RANK = 1  # the paper's
MOST_VALUE = 1 << 20  # whole numbers: float32 adds those of 16 ranks exactly
WARM_UP_SEED = 7_919  # other delays than the timed ones


@dataclass(frozen=True)
class Case:
    """One mode with one largest delay and message; times in seconds."""

    mode: str
    max_delay_s: float
    message_bytes: int
    iterations: int
    computation_s: float  # of every rank

    def half_s(self, delay_s: float) -> float:
        """Half of the emulated computation of a rank that is late by so much."""
        return (self.max_delay_s + self.computation_s + delay_s) / 2


def draw_delays_s(
    mode: str, max_delay_s: float, ranks: int, iterations: int, seed: int
) -> list[list[float]]:
    """Draw every rank's delay in every iteration: the same on all ranks and for all algorithms."""
    if mode == "one-late":
        late_s = [max_delay_s if rank == LATE_RANK else 0.0 for rank in range(ranks)]
        return [late_s] * iterations
    if mode in PATTERNS:
        draws = (PATTERNS[mode](ranks, max_delay_s, f"{seed} {i}") for i in range(iterations))
        return [[min(delay_s, max_delay_s) for delay_s in draw] for draw in draws]
    drawn = random.Random(f"{seed} {mode} {max_delay_s} {ranks}")
    return [[drawn.uniform(0, max_delay_s) for _ in range(ranks)] for _ in range(iterations)]


def random_values(
    elements: int, rank: int, ranks: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw this rank's random data, and all ranks' again for their exact sum."""
    total = torch.zeros(elements)
    for other in range(ranks):
        generator = torch.Generator().manual_seed(seed * ranks + other)
        drawn = torch.randint(MOST_VALUE, (elements,), generator=generator, dtype=torch.int32)
        values = drawn.float()
        total += values
        if other == rank:
            mine = values
    return mine, total


def iterate(
    bench: Bench, rival: Rival, case: Case, bucket: torch.Tensor, delays_s: list[float]
) -> Sample:
    """Run one iteration of Fig. 9, without the making and checking of data."""
    half_s = case.half_s(delays_s[bench.rank])
    dist.barrier(group=bench.control)
    dist.barrier(group=bench.control)
    rival.edge(0.0)
    time.sleep(half_s)
    rival.edge(0.5)
    time.sleep(half_s)
    arrival_s = time.monotonic()
    rival.all_reduce(bucket, delays_s)
    return bench.gather(arrival_s, time.monotonic())


def run_case(
    bench: Bench,
    rivals: list[Rival],
    pair: PointToPoint | None,
    case: Case,
    *,
    warm_up: int,
    seed: int,
) -> tuple[list[float], dict[str, list[Sample]]]:
    """Measure all rivals on one case; return M*beta's samples and each rival's."""
    elements = case.message_bytes // 4
    bucket = torch.empty(elements)
    samples: dict[str, list[Sample]] = {rival.name: [] for rival in rivals}
    transfers_s: list[float] = []

    def delays_s(iterations: int, seed: int) -> list[list[float]]:
        return draw_delays_s(case.mode, case.max_delay_s, bench.ranks, iterations, seed)

    values, expected = random_values(elements, bench.rank, bench.ranks, seed)
    for rival in rivals:
        for delays in delays_s(warm_up, seed + WARM_UP_SEED) if rival.name == "auto" else []:
            bucket.copy_(values)
            iterate(bench, rival, case, bucket, delays)
            check(rival, [bucket], expected)
    for i, delays in enumerate(delays_s(case.iterations, seed)):
        if pair is not None:
            transfers_s.append(pair.transfer(case.message_bytes))
        values, expected = random_values(elements, bench.rank, bench.ranks, seed + 1 + i)
        for rival in rivals:
            bucket.copy_(values)
            samples[rival.name].append(iterate(bench, rival, case, bucket, delays))
            check(rival, [bucket], expected)
    return transfers_s, samples


def records(
    plan: Plan, bench: Bench, rivals: list[Rival], pair: PointToPoint | None
) -> Iterator[Record]:
    """Measure everything the plan asks for; one record per rival and case."""
    for case in cases(plan):
        transfers_s, samples = run_case(
            bench, rivals, pair, case, warm_up=plan["warm_up"], seed=plan["seed"]
        )
        for rival in rivals:
            mine = samples[rival.name]
            record = {
                "mode": case.mode,
                "max_delay_s": case.max_delay_s,
                "algorithm": rival.name,
                "ranks": bench.ranks,
                "bytes": case.message_bytes,
                "network": plan["network"],
                "transport": rival.transport,
                "computation_s": case.max_delay_s + case.computation_s,
                "Mbeta_s": statistics.median(transfers_s) if transfers_s else None,
                **medians(mine),
                "samples": [relative(sample) for sample in mine],
            }
            if isinstance(rival, Patallreduce) and rival.name == "auto":
                record["warm_up"] = plan["warm_up"]
                record["link"] = rival.link
                record["plans"] = rival.plans([min(sample.arrivals_s) for sample in mine])
            yield {
                **record,
                "seed": plan["seed"],
                "Mbeta_samples_s": [round(s, 6) for s in transfers_s],
                "environment": plan["environment"],
            }


def cases(plan: Plan) -> Iterator[Case]:
    """Go through all cases of a plan, the delays innermost."""
    for message_bytes in plan["bytes"]:
        for mode in plan["modes"]:
            for max_delay_s, iterations in zip(plan["delays"], plan["iterations"], strict=True):
                yield Case(mode, max_delay_s, message_bytes, iterations, plan["computation_s"])


def said(record: Record) -> str:
    """Tell of a case that is done."""
    return (
        f"{record['algorithm']}, {record['mode']} up to {record['max_delay_s']:g} s: average "
        f"elapsed {record['average_elapsed_s'] * 1e3:.1f} ms, after {record['after_s'] * 1e3:.1f} "
        "ms"
    )


if __name__ == "__main__":
    run_rivals(records, said)
