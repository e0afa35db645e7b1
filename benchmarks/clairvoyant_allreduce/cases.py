"""Every case: its arrivals, its lower bounds, and what each algorithm takes, simulated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import patallreduce as pat
from benchmarks import traces
from benchmarks.lab.plan import Record
from patallreduce import patterns
from patallreduce.pricing.bucket import Bucket, make_schedule
from patallreduce.pricing.selection import choose_segments

RIVALS = ("ring", "slt", "prr")
OTHERS = ("recursive_doubling", "rabenseifner", "two_tree", "radix_k")
SIZES_BYTES = (1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
RANKS = (4, 8, 16, 48)
DELAYS = (0.3, 1.0, 3.0)
LEAST_SEGMENT_BYTES = 64
SEED = 1


def trace_delays(ranks: int, delay_s: float) -> list[float]:
    """Delays seen on 32 ranks, the largest made `delay_s`; more ranks: of further iterations."""
    iterations = traces.read("SE")[0]
    late_s: list[float] = []
    for iteration in iterations:
        first_s = min(iteration.arrivals_s)
        late_s += [arrival_s - first_s for arrival_s in iteration.arrivals_s]
    # The iteration's last rank among those taken, so that there is a late one.
    last = iterations[0].last_rank
    begin = max(0, min(last - ranks // 2, 32 - ranks)) if ranks <= 32 else 0
    taken_s = late_s[begin : begin + ranks]
    return [delay_s * each_s / max(taken_s) for each_s in taken_s]


# Ranks and delay to arrivals; CLV16's, their parameters as in benchmarks/arrivals/worker.py but for
# Bernoulli's probability, which makes a quarter of the ranks late on average.
PATTERNS: dict[str, Callable[[int, float], list[float]]] = {
    "balanced": lambda ranks, _: patterns.balanced(ranks),
    "one late": patterns.one_late,
    "alternating": lambda ranks, delay_s: patterns.alternating(ranks, 0.0, delay_s),
    "uniform": lambda ranks, delay_s: patterns.uniform(ranks, delay_s, seed=SEED),
    "normal": lambda ranks, delay_s: patterns.normal(ranks, delay_s / 4, seed=SEED),
    "gamma": lambda ranks, delay_s: patterns.gamma(ranks, delay_s / 4, seed=SEED),
    "bernoulli": lambda ranks, delay_s: patterns.bernoulli(ranks, delay_s, 0.25, seed=SEED),
    "trace": trace_delays,
}


def cases(ranks: int, link: pat.Link, sizes_bytes: Sequence[int]) -> Iterator[Record]:
    """Measure every size, pattern and delay."""
    for message_bytes in sizes_bytes:
        for pattern, arrivals in PATTERNS.items():
            for delay in DELAYS if pattern != "balanced" else (0.0,):
                arrivals_s = arrivals(ranks, delay * link.transfer_s(message_bytes))
                yield {
                    "ranks": ranks,
                    "bytes": message_bytes,
                    "pattern": pattern,
                    "delay": delay,
                    **measure(ranks, message_bytes, link, arrivals_s),
                }


def measure(ranks: int, message_bytes: int, link: pat.Link, arrivals_s: Sequence[float]) -> Record:
    """Price one case; all seconds count from the first arrival."""
    first_s = min(arrivals_s)
    bound = pat.lower_bound(link, message_bytes, arrivals_s)

    def price(name: str, segments: int | None) -> tuple[float, float]:
        bucket = Bucket(ranks, message_bytes, link, segments)
        found = pat.simulate(
            make_schedule(name, bucket, arrivals_s), link, message_bytes, arrivals_s
        )
        return max(found.finish_s) - first_s, found.average_elapsed_s

    start_s = time.process_time()
    schedule = make_schedule("clairvoyant", Bucket(ranks, message_bytes, link), arrivals_s)
    made_s = time.process_time() - start_s
    found = pat.simulate(schedule, link, message_bytes, arrivals_s)
    return {
        "bound": [bound.last_finish_s - first_s, bound.average_elapsed_s],
        "clairvoyant": [max(found.finish_s) - first_s, found.average_elapsed_s],
        "segments": schedule.segments,
        "messages": sum(s.verb == "send" for r in range(ranks) for s in schedule.steps(r)),
        "made_s": round(made_s, 4),
        "rivals": {name: tuned(name, ranks, message_bytes, link, price) for name in RIVALS},
        "others": {name: price(name, None) for name in OTHERS},
    }


def tuned(
    name: str,
    ranks: int,
    message_bytes: int,
    link: pat.Link,
    price: Callable[[str, int | None], tuple[float, float]],
) -> Record:
    """Find the least makespan and the least average, and the segments of each."""
    least = 1 if name == "slt" else ranks
    most = max(message_bytes // LEAST_SEGMENT_BYTES, least)
    start = choose_segments(name, ranks, message_bytes, message_bytes // 4, link)

    @cache
    def priced(segments: int) -> tuple[float, float]:
        return price(name, segments)

    best: Record = {}
    for measure, key in enumerate(("makespan", "average")):
        segments = min(max(start, least), most)
        for factor in (2.0, 0.5):
            while least <= (following := math.ceil(segments * factor)) <= most:
                if following == segments or priced(following)[measure] >= priced(segments)[measure]:
                    break
                segments = following
        best[key] = [priced(segments)[measure], segments]
    return best
