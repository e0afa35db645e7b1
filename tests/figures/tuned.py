"""Decisions that were measured: what docs/tuning.md says of them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.tuned.__main__ import WHO, penalty_of
from tests.figures.records import Figure, load

PAGE = "docs/tuning.md"
CASES = {"200mbit": "8 ranks, 200 Mbit/s", "shm": "4 ranks, shared memory"}


def figures() -> Iterator[Figure]:
    file = "tuned.jsonl"
    for network, name in CASES.items():
        records = [r for r in load(file) if r["network"] == network]
        for who in WHO:
            of = penalty_of(who, records)
            row = f"| {name} | {who} | {of.mean:.1%} | {of.ninety:.1%} | {of.most:.1%} |"
            yield Figure(PAGE, row.replace("%", " %"), "mean", file)
    worst = max(
        (r for r in load(file) if r["network"] == "200mbit"),
        key=lambda r: r["seconds"][r["chosen"]["usual"]] / min(r["seconds"].values()),
    )
    ratio = worst["seconds"][worst["chosen"]["usual"]] / min(worst["seconds"].values())
    yield Figure(PAGE, f"takes {ratio:.1f} times", "median", file)
