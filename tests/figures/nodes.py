"""Several ranks per host: what docs/performance.md says of them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.figures.records import Figure, after_s, load, mean, median, ms, one

PAGE = "docs/performance.md"
RANKS_PER_HOST = 4
ALGORITHMS = ("gloo", "ring", "slt", "prr")


def single() -> Iterator[Figure]:
    file = "nodes.jsonl"
    names = {0: "nobody", 1: "a rank", RANKS_PER_HOST: "a host"}
    cases = {(r["ranks"], tuple(r["arrivals_s"])) for r in load(file)}
    for ranks, arrivals_s in cases:
        rows = [r for r in load(file) if r["arrivals_s"] == list(arrivals_s)]
        by_name = {r["algorithm"]: r for r in rows if r["ranks"] == ranks}
        late = names[sum(at_s > 0 for at_s in arrivals_s)]
        times = " | ".join(ms(after_s(by_name[name])) for name in ALGORITHMS)
        row = f"| {ranks // RANKS_PER_HOST} | {late} | {times} |"
        yield Figure(PAGE, row, "medians", file)
    transfer_s = median(r["Mbeta_s"] for r in load(file))
    yield Figure(PAGE, f"M*beta of {transfer_s * 1e3:.0f} ms", "medians", file)


def training() -> Iterator[Figure]:
    file = "training_nodes.jsonl"
    for delay_s, late in ((0, "nobody"), (0.3, "one by 0.3 s")):
        times = " | ".join(
            f"{ms(median(times_s))} | {ms(mean(times_s))}"
            for hook in ("gloo", "ring", "auto")
            for times_s in [one(file, hook=hook, delay_s=delay_s)["iterations_s"]]
        )
        yield Figure(PAGE, f"| {late} | {times} |", "median", file)


def figures() -> Iterator[Figure]:
    yield from single()
    yield from training()
