"""How long does choosing an algorithm take, and planning an iteration?  One JSON line per case.

    python -m benchmarks.selection --ranks 8 32 1000 --buckets 4 32

For each number of ranks and each pattern of arrivals: one choice that has to be priced, by a
selector that has never seen the pattern, and one that is remembered; for each number of buckets,
which share the message, the same of a plan for all of them. Both through Python, whose
conversion of three lists is part of every call here and of none in the monitor. Seconds of this
thread on the processor, so that other processes do not count; figures are medians.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import processor
from patallreduce import Link, _core

ELEMENT_BYTES = 4
LINK = Link(20e-6, 25e6, 5e9)  # 200 Mbit/s

Forecast = tuple[list[float], list[float], list[float]]  # arrivals, errors, computation


def patterns(ranks: int, transfer_s: float) -> dict[str, Forecast]:
    """Forecasts by name; lateness in transfers of the whole message."""
    together = [0.0] * ranks
    late = [*together[1:], 3 * transfer_s]
    spread = [transfer_s * ((7 * rank) % ranks) / ranks for rank in range(ranks)]
    doubt = [transfer_s / 2] * ranks
    return {
        "balanced": (together, [], []),
        "one late": (late, [], []),
        "one late, again and again": (late, [], late),
        "spread": (spread, [], []),
        "spread, doubtful": (spread, doubt, []),
    }


def processor_seconds(call: Callable[[], object], calls: int) -> float:
    """Mean of `calls` calls in a row."""
    start_s = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - start_s) / calls


def measure(ranks: int, elements: int, name: str, repeats: int) -> dict[str, object]:
    """Time priced and remembered choices of one pattern."""
    transfer_s = elements * ELEMENT_BYTES / LINK.bytes_per_s
    *forecast, _ = patterns(ranks, transfer_s)[name]
    priced_s, remembered_s = [], []
    choice = None
    for _ in range(repeats):
        selector = _core.Selector(ranks, LINK)

        def choose(selector: _core.Selector = selector) -> object:
            return selector.choose(elements, ELEMENT_BYTES, *forecast)

        priced_s.append(processor_seconds(choose, 1))
        remembered_s.append(processor_seconds(choose, 200))
        choice = selector.choose(elements, ELEMENT_BYTES, *forecast)
    assert choice is not None
    return {
        "ranks": ranks,
        "message_bytes": elements * ELEMENT_BYTES,
        "pattern": name,
        "algorithm": choice[0],
        "segments": choice[1],
        "price_s": round(choice[4], 6),
        "priced_us": round(statistics.median(priced_s) * 1e6, 1),
        "remembered_us": round(statistics.median(remembered_s) * 1e6, 2),
        "repeats": repeats,
        "processor": processor(),
    }


def measure_plan(
    ranks: int, elements: int, buckets: int, name: str, repeats: int
) -> dict[str, object]:
    """Time priced and remembered plans of one pattern; the last bucket has its arrivals."""
    transfer_s = elements * ELEMENT_BYTES / LINK.bytes_per_s
    last_s, errors_s, compute_s = patterns(ranks, transfer_s)[name]
    sizes = [(elements // buckets, ELEMENT_BYTES)] * buckets
    arrivals_s = [
        [at_s - transfer_s / 2 * (1 - (b + 1) / buckets) for at_s in last_s] for b in range(buckets)
    ]
    priced_s, remembered_s = [], []
    plan: tuple[list[tuple[str, int, list[float], float]], float, float] | None = None
    for _ in range(repeats):
        planner = _core.Planner(ranks, LINK)
        planner.plan(sizes, [[0.0] * ranks] * buckets)  # prepares schedules

        def choose(planner: _core.Planner = planner) -> object:
            return planner.plan(sizes, arrivals_s, errors_s, compute_s, errors_s)

        priced_s.append(processor_seconds(choose, 1))
        remembered_s.append(processor_seconds(choose, 200))
        plan = planner.plan(sizes, arrivals_s, errors_s, compute_s, errors_s)
    assert plan is not None
    keys, pace_s, plain_pace_s = plan
    return {
        "ranks": ranks,
        "message_bytes": elements * ELEMENT_BYTES,
        "buckets": buckets,
        "pattern": name,
        "algorithm": keys[-1][0] if keys else None,
        "pace_s": round(pace_s, 6),
        "plain_pace_s": round(plain_pace_s, 6),
        "priced_us": round(statistics.median(priced_s) * 1e6, 1),
        "remembered_us": round(statistics.median(remembered_s) * 1e6, 2),
        "repeats": repeats,
        "processor": processor(),
    }


def main() -> None:
    """Measure every chosen case."""
    parser = command_line("selection", __doc__)
    parser.add_argument("--ranks", nargs="+", type=int, default=[8, 32, 1000])
    parser.add_argument("--elements", type=int, default=1 << 20)
    parser.add_argument("--buckets", nargs="*", type=int, default=[4, 32])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    for ranks in options.ranks:
        for name in patterns(ranks, 1.0):
            print(json.dumps(measure(ranks, options.elements, name, options.repeats)), flush=True)
            for buckets in options.buckets:
                record = measure_plan(ranks, options.elements, buckets, name, options.repeats)
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
