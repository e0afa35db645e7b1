"""Keeps what the demo measured as records: one JSON line per run of a configuration.

    python examples/demo.py --out out/demo
    python -m benchmarks.demo --runs out/demo --output benchmarks/results/demo.jsonl

`iterations_s` are the times from one last end to the next, `after_s`, `average_elapsed_s` and
`late_elapsed_s` those of the same iterations, the first ones of a run left out, as in the demo's
table, whose figures are medians over both runs of a configuration.
"""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import environment
from benchmarks.lab.plan import Record, write_records

FIRST_STEADY_ITERATION = 5  # as in examples/records.py
LATE_RANK, LATE_S, NETWORK = 1, 0.08, "200mbit"  # the demo's defaults

Rank = dict[str, float]


def iterations_of(folder: Path) -> list[list[Rank]]:
    """Read a run's steady iterations, the ranks of each in order."""
    files = sorted(folder.glob("rank*.jsonl"), key=lambda path: int(path.stem[len("rank") :]))
    ranks = [[json.loads(line) for line in path.read_text().splitlines()] for path in files]
    return [list(of) for of in zip(*ranks, strict=True)][FIRST_STEADY_ITERATION:]


def record_of(folder: Path) -> Record:
    """One run as a record."""
    iterations = iterations_of(folder)
    ends_s = [max(rank["end_s"] for rank in of) for of in iterations]
    elapsed_s = [[rank["finish_s"] - rank["arrival_s"] for rank in of] for of in iterations]
    late = [of[LATE_RANK] for of in iterations]
    return {
        "configuration": folder.name.rpartition("-")[0],
        "run": int(folder.name.rpartition("-")[2]),
        "ranks": len(iterations[0]),
        "bytes": json.loads((folder / "summary.json").read_text())["gradient_bytes"],
        "network": NETWORK,
        "late_rank": LATE_RANK,
        "late_s": LATE_S,
        "iterations_s": [end - before for before, end in itertools.pairwise(ends_s)],
        "average_elapsed_s": [statistics.fmean(of) for of in elapsed_s],
        "after_s": [
            max(rank["finish_s"] for rank in of) - max(rank["arrival_s"] for rank in of)
            for of in iterations
        ],
        "late_elapsed_s": [of[LATE_RANK] for of in elapsed_s],
        "late_computation_s": [
            rank["end_s"] - rank["start_s"] - of[LATE_RANK]
            for rank, of in zip(late, elapsed_s, strict=True)
        ],
        "environment": environment(),
    }


def main() -> None:
    """Write the records of all runs."""
    parser = command_line("demo", __doc__)
    parser.add_argument("--runs", type=Path, default=Path("out/demo"))
    parser.add_argument("--output", type=Path, default=Path("out/bench/demo.jsonl"))
    arguments = parser.parse_args()
    runs = sorted(path.parent for path in arguments.runs.glob("*/summary.json"))
    if not runs:
        parser.error(f"--runs: {arguments.runs} holds no run; first: python examples/demo.py")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    write_records(arguments.output, map(record_of, runs))


if __name__ == "__main__":
    main()
