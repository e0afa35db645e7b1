"""How long does pricing one all-reduce of very many ranks take?  Prints one JSON line per case.

    python -m benchmarks.simulation
    python -m benchmarks.simulation --cases ring:1000:1000:late binomial:100000:1

A case is algorithm:ranks:segments, and optionally how ranks arrive: `together` (the default),
`spread` evenly over one transfer of the message in a scrambled order, or one rank `late` by three
transfers. Each runs in a process of its own, whose largest memory is told. The message has 4 KiB
per segment.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time

import patallreduce as pat
from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import processor

SEGMENT_BYTES = 4096
LINK = pat.Link(20e-6, 1.25e9, 5e9)
CASES = (
    "ring:10000:10000",
    "ring:10000:10000:spread",
    "recursive_doubling:100000:1",
    "recursive_doubling:100000:1:spread",
    "binomial_all_reduce:100000:1",
    "binomial_all_reduce:100000:1:spread",
    "two_tree:100000:1",
    "two_tree:100000:16",
    "two_tree:100000:16:spread",
)


def arrivals(pattern: str, ranks: int, transfer_s: float) -> list[float]:
    """Seconds by rank."""
    if pattern == "spread":  # 7919 is prime: no rank twice
        return [transfer_s * (rank * 7919 % ranks) / ranks for rank in range(ranks)]
    if pattern == "late":
        return [3 * transfer_s * (rank == ranks // 3) for rank in range(ranks)]
    return [0.0] * ranks


def measure(case: str) -> dict[str, object]:
    """Price one case in this process."""
    name, ranks, segments, *patterns = case.split(":")
    pattern = patterns[0] if patterns else "together"
    message_bytes = int(segments) * SEGMENT_BYTES
    arrivals_s = arrivals(pattern, int(ranks), LINK.transfer_s(message_bytes))
    start_s, start_processor_s = time.monotonic(), time.process_time()
    result = pat.simulate_algorithm(
        name,
        int(ranks),
        int(segments),
        link=LINK,
        message_bytes=message_bytes,
        arrivals_s=arrivals_s,
    )
    seconds = time.monotonic() - start_s
    processor_s = time.process_time() - start_processor_s
    busy_s = LINK.port_share * LINK.latency_s + LINK.transfer_s(SEGMENT_BYTES)
    messages = round(sum(result.sends_s) / busy_s)
    return {
        "algorithm": name,
        "ranks": int(ranks),
        "segments": int(segments),
        "message_bytes": message_bytes,
        "pattern": pattern,
        "messages": messages,
        "seconds": round(seconds, 2),
        "processor_s": round(processor_s, 2),
        "ns_per_message": round(processor_s / messages * 1e9, 1),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "after_last_arrival_s": result.after_last_arrival_s,
        "processor": processor(),
    }


def main() -> None:
    """Measure every chosen case, each in a fresh process."""
    parser = command_line("simulation", __doc__)
    parser.add_argument("--cases", nargs="+", default=CASES)
    options = parser.parse_args()
    for case in options.cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(json.dumps(pool.apply(measure, (case,))), flush=True)


if __name__ == "__main__":
    main()
