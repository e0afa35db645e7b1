"""What does it cost to make Clairvoyant's schedules?  Prints one JSON line per size and pattern.

    taskset -c 0 python -m benchmarks.clairvoyant
    taskset -c 0 python -m benchmarks.clairvoyant --implementations segment_tree --repeats 100

Instances are drawn as in CLV20, section 5.7. Uniform: arrivals uniform in [0, P + 0.1], any root.
Skewed: all at 0 but the last rank, which comes at N; root 0. Rounds last uniform(0.001, 1) in both.
The implementations take turns on the same instances, on one thread. A time is that thread's
processor time for the whole schedule, all ranks' steps included: the median over the instances.
`times` are ratios of means, as in CLV20's Table 1, whose are beside them; there only the segment
tree skips idle rounds, here all do. `bits_per_cell` is the state kept per rank and segment.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from typing import Any

from benchmarks.clairvoyant_rivals import WAYS, Made, Way
from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import processor

# CLV20, Table 1: how many times as long as the segment tree (linear, pairing heap).
PUBLISHED_TIMES = {
    ("uniform", 4): (0.49, 1.84),
    ("uniform", 8): (0.62, 3.07),
    ("uniform", 16): (0.73, 3.53),
    ("uniform", 32): (0.97, 5.72),
    ("uniform", 64): (1.26, 8.17),
    ("uniform", 128): (2.00, 12.46),
    ("uniform", 256): (4.05, 15.58),
    ("uniform", 512): (19.33, 43.64),
    ("skewed", 4): (0.45, 2.45),
    ("skewed", 8): (0.61, 5.68),
    ("skewed", 16): (0.61, 5.34),
    ("skewed", 32): (0.67, 8.60),
    ("skewed", 64): (0.64, 14.37),
    ("skewed", 128): (0.61, 21.04),
    ("skewed", 256): (0.64, 22.77),
    ("skewed", 512): (1.36, 82.98),
}


def instance(choose: random.Random, pattern: str, ranks: int) -> tuple[list[float], int, float]:
    """Arrivals, root and seconds of a round for P = N = ranks."""
    round_s = choose.uniform(0.001, 1)
    if pattern == "skewed":
        return [0.0] * (ranks - 1) + [float(ranks)], 0, round_s
    arrivals_s = [choose.uniform(0, ranks + 0.1) for _ in range(ranks)]
    return arrivals_s, choose.randrange(ranks), round_s


def measure(pattern: str, ranks: int, implementations: list[Way], repeats: int) -> dict[str, Any]:
    """Time all implementations on the same instances."""
    choose = random.Random(ranks)
    taken_s: dict[str, list[float]] = {name: [] for name in implementations}
    bits_per_cell = {}
    for _ in range(repeats):
        arrivals_s, root, round_s = instance(choose, pattern, ranks)
        for name in implementations:
            start_s = time.thread_time()
            made = Made(name, ranks, ranks, arrivals_s, root=root, segment_time_s=round_s)
            taken_s[name].append(time.thread_time() - start_s)
            bits_per_cell[name] = made.state_bytes * 8 / ranks**2
            del made
    mean_s = {name: statistics.mean(times_s) for name, times_s in taken_s.items()}
    row: dict[str, Any] = {
        "pattern": pattern,
        "ranks": ranks,
        "segments": ranks,
        "repeats": repeats,
        "median_s": {name: statistics.median(times_s) for name, times_s in taken_s.items()},
        "longest_s": {name: max(times_s) for name, times_s in taken_s.items()},
        "bits_per_cell": bits_per_cell,
    }
    if "segment_tree" in mean_s:
        tree_s = mean_s["segment_tree"]
        row["times"] = {name: round(mean_s[name] / tree_s, 2) for name in implementations}
    if published := PUBLISHED_TIMES.get((pattern, ranks)):
        row["times_published"] = dict(zip(("linear", "pairing_heap"), published, strict=True))
    return row


def main() -> None:
    """Measure every pattern and size."""
    parser = command_line("clairvoyant", __doc__)
    parser.add_argument("--patterns", nargs="+", default=["uniform"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[64, 128, 256, 512])
    parser.add_argument("--implementations", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for pattern in options.patterns:
        for ranks in options.ranks:
            row = measure(pattern, ranks, options.implementations, options.repeats)
            print(json.dumps(row | {"processor": processor()}), flush=True)


if __name__ == "__main__":
    main()
