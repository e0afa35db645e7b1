"""What do many ranks cost the leader?  A replay of its reports; one JSON line per number of ranks.

    python -m benchmarks.leader --results benchmarks/results/leader.jsonl

Every rank of every iteration tells its start, three edges, that it asks for the plan, and its
arrivals. Computation takes 100 ms and a jitter; one rank is late by half of that, another one every
ten iterations. The selector is the real one, on a link of 1 GB/s and two buckets of 25 and 4 MiB.

Figures: processor time of the leader's thread. `report_us` is the median over iterations of all
reports without the decision, per report; it contains the call from Python, about half a
microsecond. `decision_ms` is the one report of an iteration that made its plan due: predictions of
all ranks for both buckets and the choice of both schedules, which is cached per class of forecasts.
`cost_s` is all of an iteration. Receiving and sending are not in it.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import processor
from patallreduce import Link, _core

COMPUTE_S, JITTER_S, LATE_S = 0.1, 0.002, 0.05
FRACTIONS = (0.25, 0.5, 0.75)
BUCKETS = [(25 * 2**18, 4), (2**20, 4)]
LINK = Link(20e-6, 1e9)
MOVES_EVERY = 10

Report = tuple[float, str, tuple[Any, ...]]  # when, kind, arguments


def reports(ranks: int, iteration: int, start_s: float, jitter: random.Random) -> list[Report]:
    """All ranks' reports of one iteration, in the order of time."""
    late_rank = iteration // MOVES_EVERY % ranks
    told: list[Report] = []
    for rank in range(ranks):
        compute_s = COMPUTE_S + abs(jitter.gauss(0, JITTER_S)) + LATE_S * (rank == late_rank)
        at = (rank, 0, iteration)
        finish_s = [start_s - 0.01] * len(BUCKETS)
        told.append((start_s, "started", (*at, start_s, finish_s)))
        for fraction in FRACTIONS:
            edge_s = start_s + fraction * compute_s
            told.append((edge_s, "edge", (*at, fraction, edge_s)))
        arrival_s = start_s + compute_s
        told.append((arrival_s, "asked", (*at, arrival_s)))
        told.append((arrival_s, "arrived", (*at, [arrival_s] * len(BUCKETS), BUCKETS)))
    return sorted(told, key=lambda report: report[0])  # stable: a rank's own order stays


def measure(ranks: int, iterations: int, seed: int) -> dict[str, Any]:
    """Replay; the first plan, made of nothing, does not count."""
    leader = _core.Leader(ranks, _core.Planner(ranks, LINK))
    jitter = random.Random(seed)
    costs_s, decisions_s, message_bytes, algorithms = [], [], 0, set()
    for iteration in range(iterations):
        calls = [
            (getattr(leader, kind), (*arguments, at_s))
            for at_s, kind, arguments in reports(ranks, iteration, 100 + iteration * 0.2, jitter)
        ]
        decided = []
        began_s = time.thread_time()
        for tell, arguments in calls:
            before_s = time.thread_time()
            plan = tell(*arguments)
            if plan is not None:
                decided.append((time.thread_time() - before_s, plan))
        clock_s = len(calls) * CLOCK_S
        cost_s = time.thread_time() - began_s - clock_s
        assert len(decided) == 1
        if iteration == 0:
            continue
        costs_s.append(cost_s)
        decision_s, plan = decided[0]
        decisions_s.append(decision_s)
        message_bytes = max(message_bytes, plan.message_bytes)
        algorithms |= {bucket[2] for bucket in plan.buckets}
    per_report_s = [
        (cost_s - decision_s) / len(calls)
        for cost_s, decision_s in zip(costs_s, decisions_s, strict=True)
    ]
    return {
        "ranks": ranks,
        "iterations": iterations,
        "reports": len(calls),
        "report_us": round(1e6 * statistics.median(per_report_s), 2),
        "decision_ms": round(1e3 * statistics.median(decisions_s), 3),
        "longest_decision_ms": round(1e3 * max(decisions_s), 3),
        "cost_s": round(statistics.median(costs_s), 5),
        "plan_bytes": message_bytes,
        "algorithms": sorted(algorithms),
    }


def reading_the_clock_s() -> float:
    """What measuring adds to every report."""
    began_s = time.thread_time()
    for _ in range(100_000):
        time.thread_time()
    return (time.thread_time() - began_s) / 100_000


CLOCK_S = reading_the_clock_s()


def main() -> None:
    """Measure every chosen number of ranks."""
    parser = command_line("leader", __doc__)
    parser.add_argument("--ranks", nargs="+", type=int, default=[100, 300, 1000])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="also write the lines there")
    options = parser.parse_args()
    lines = []
    for ranks in options.ranks:
        record = measure(ranks, options.iterations, options.seed)
        lines.append(json.dumps({**record, "seed": options.seed, "processor": processor()}))
        print(lines[-1], flush=True)
    if options.results:
        options.results.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
