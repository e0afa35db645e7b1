"""What do reproducible bits cost beside our own ring, and Gloo?  One JSON line per case.

    python -m benchmarks.reproducible --network 200mbit --ranks 8 --bytes 4MiB
    python -m benchmarks.reproducible --network shm --ranks 2 --bytes 1MiB 4MiB 16MiB

All ranks arrive together, the rivals take turns in every round (benchmarks.allreduce), and
every element is checked. `of_ring` is the median over the rounds of the time of one all-reduce,
reproducible over ring; the goal is at most 1.15. `simulated_of_ring` is what the model says of the
same two schedules with the link that was asked for (the emulated network only): a model that is off
shows here. Whether the bits are right is asked elsewhere (tests/reproducible).
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from benchmarks.lab.arguments import add_network, add_out, command_line
from benchmarks.lab.plan import end_on_sigterm, make_plan, run_plan, write_records

RIVALS = ["ring", "reproducible", "gloo"]
LATENCY_S = 50e-6  # of the emulated network, from namespace to namespace
TCP_SHARE = 0.92  # of a port's rate that is left to the payload: 22.8 of 25 MB/s, measured


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("reproducible", __doc__)
    add_network(parser)
    parser.add_argument("--repeats", type=int, default=9, help="rounds; medians are reported")
    add_out(parser, "out/reproducible", 1800.0)
    return parser.parse_args()


def seconds(sample: dict[str, Any]) -> float:
    """Time of one all-reduce: from the last arrival until every rank has its result."""
    elapsed_s: float = max(sample["finishes_s"]) - max(sample["arrivals_s"])
    calls: int = sample["calls"]
    return elapsed_s / calls


def simulated_of_ring(network: str, ranks: int, message_bytes: int) -> float | None:
    """The same ratio by the simulator; None where the link is not known."""
    if not network.endswith("mbit"):
        return None
    import patallreduce as pat
    from patallreduce.pricing.selection import choose_segments

    link = pat.Link(LATENCY_S, float(network.removesuffix("mbit")) * 1e6 / 8 * TCP_SHARE)
    finish_s = {}
    for name in ("ring", "reproducible"):
        segments = choose_segments(name, ranks, message_bytes, message_bytes // 4, link)
        schedule = pat.schedule(name, ranks, segments)
        finish_s[name] = max(
            pat.simulate(schedule, link=link, message_bytes=message_bytes).finish_s
        )
    return finish_s["reproducible"] / finish_s["ring"]


def cases(records: list[dict[str, Any]], network: str) -> list[dict[str, Any]]:
    """One row per number of ranks and size: every rival's median, and the ratios round by round."""
    rows = []
    for record in records:
        if record["algorithm"] != "ring":
            continue
        same = [r for r in records if all(r[key] == record[key] for key in ("ranks", "bytes"))]
        times_s = {r["algorithm"]: [seconds(sample) for sample in r["samples"]] for r in same}
        turns = zip(times_s["reproducible"], times_s["ring"], strict=True)
        rows.append(
            {
                "network": network,
                "transport": record["transport"],
                "ranks": record["ranks"],
                "bytes": record["bytes"],
                "repeats": len(times_s["ring"]),
                "median_s": {name: statistics.median(of) for name, of in times_s.items()},
                "of_ring": statistics.median(ours / ring for ours, ring in turns),
                "simulated_of_ring": simulated_of_ring(network, record["ranks"], record["bytes"]),
                "Mbeta_s": record["Mbeta_s"],
                "samples_s": times_s,
                "environment": record["environment"],
            }
        )
    return rows


def main() -> None:
    """Measure, print one line per case and write them to OUT/reproducible.jsonl."""
    options = parse_arguments()
    end_on_sigterm()
    plan = make_plan(options, "turns.jsonl", algorithms=RIVALS, late=[{}])
    records = run_plan(plan, options.ranks, "benchmarks.allreduce.worker")
    rows = cases(records, options.network)
    write_records(options.out / "reproducible.jsonl", rows)
    for row in rows:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
