"""What do the rules for segments cost or save?  Simulated, so on any machine the same figures.

    python -m benchmarks.segments --output out/bench/segments.jsonl

For every number of ranks: a balanced `reproducible` all-reduce, its parts cut 1, 2, 4 and 8 times
and as often as the rule says, over a ring as the rule says; and `rabenseifner`, its parts in 1, 2,
4 and 8 pieces, with all ranks together and with one of them late. One JSON line per case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import patallreduce as pat
from benchmarks.lab.arguments import command_line
from benchmarks.lab.plan import Record
from patallreduce.pricing.selection import choose_segments

MESSAGE_BYTES = 4 << 20
CUTS = (1, 2, 4, 8)
RANKS = range(3, 33)
SLOW = pat.Link(latency_s=50e-6, bytes_per_s=25e6)  # 200 Mbit/s
FAST = pat.Link(latency_s=5e-6, bytes_per_s=1e9)
LATE_S = 2e-3


def finish_s(
    algorithm: str, ranks: int, link: pat.Link, segments: int | None = None, late_s: float = 0.0
) -> float:
    """When the last rank has its result; rank 1 arrives at `late_s`, the others at 0."""
    arrivals_s = [late_s if rank == 1 else 0.0 for rank in range(ranks)]
    simulated = pat.simulate_algorithm(
        algorithm,
        ranks,
        segments,
        link=link,
        message_bytes=MESSAGE_BYTES,
        arrivals_s=arrivals_s,
    )
    return max(simulated.finish_s)


def by_rule_s(algorithm: str, ranks: int) -> float:
    """The same, balanced, with as many segments as the rule says."""
    segments = choose_segments(algorithm, ranks, MESSAGE_BYTES, MESSAGE_BYTES // 4, SLOW)
    return finish_s(algorithm, ranks, SLOW, segments)


def cases() -> Iterator[Record]:
    """Simulate every case."""
    for ranks in RANKS:
        yield {
            "algorithm": "reproducible",
            "ranks": ranks,
            "bytes": MESSAGE_BYTES,
            "bytes_per_s": SLOW.bytes_per_s,
            "latency_s": SLOW.latency_s,
            "ring_s": by_rule_s("ring", ranks),
            "by_rule_s": by_rule_s("reproducible", ranks),
            "by_cuts_s": {
                str(cuts): finish_s("reproducible", ranks, SLOW, ranks * cuts) for cuts in CUTS
            },
        }
    for late_s in (0.0, LATE_S):
        yield {
            "algorithm": "rabenseifner",
            "ranks": 8,
            "bytes": MESSAGE_BYTES,
            "bytes_per_s": FAST.bytes_per_s,
            "latency_s": FAST.latency_s,
            "late_s": late_s,
            "by_cuts_s": {
                str(cuts): finish_s("rabenseifner", 8, FAST, 8 * cuts, late_s) for cuts in CUTS
            },
        }


def main() -> None:
    """Print the records and keep them."""
    parser = command_line("segments", __doc__)
    parser.add_argument("--output", type=Path, default=Path("out/segments.jsonl"))
    output = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", encoding="utf-8") as records:
        for case in cases():
            line = json.dumps(case)
            print(line)
            records.write(line + "\n")


if __name__ == "__main__":
    main()
