"""Decisions that were measured: what docs/tuning.md says of them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.tuned.__main__ import WHO, means_s, one_tuning, penalty_of
from patallreduce.decisions.times import Method
from tests.figures.records import Figure, load, median, ms, one

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
        each = [penalty_of("rules", one_tuning(records, number)) for number in range(3)]
        means, most = (
            "{:.1%}, {:.1%} and {:.1%}".format(*of).replace("%", " %")
            for of in ([one.mean for one in each], [one.most for one in each])
        )
        yield Figure(PAGE, f"{name}: {means} on the mean, {most} at the most", "mean", file)
    ratios = [
        means_s(record)[Method(record["chosen"]["usual"][0])] / min(means_s(record).values())
        for record in load(file)
        if record["network"] == "200mbit"
    ]
    yield Figure(PAGE, f"takes {max(ratios):.1f} times", "trimmed means", file)

    file = "training_tuned.jsonl"
    for delay_s in (0.0, 0.3):
        tuned, auto = (
            ms(median(one(file, hook=hook, delay_s=delay_s)["iterations_s"]), 1)
            for hook in ("tuned", "auto")
        )
        yield Figure(PAGE, f"{tuned} with the file and {auto} without", "medians", file)
