"""Several ranks per host: what docs/performance.md says of them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import nodes as benchmark
from tests.figures.records import (
    Figure,
    after_s,
    late_elapsed_s,
    load,
    mean,
    median,
    ms,
    of_hooks,
    one,
)

PAGE = "docs/performance.md"
RANKS_PER_HOST = 4
ALGORITHMS = ("gloo", "ring", "prr", "slt", "auto")
OWN_OF = ("slt", "auto")


def single() -> Iterator[Figure]:
    file = "nodes.jsonl"
    names = {0: "nobody", 1: "a rank", RANKS_PER_HOST: "a host"}
    cases = {(r["ranks"], tuple(r["arrivals_s"])) for r in load(file)}
    for ranks, arrivals_s in cases:
        rows = [r for r in load(file) if r["arrivals_s"] == list(arrivals_s)]
        by_name = {r["algorithm"]: r for r in rows if r["ranks"] == ranks}
        late = names[sum(at_s > 0 for at_s in arrivals_s)]
        times = " | ".join(ms(after_s(by_name[name])) for name in ALGORITHMS)
        own = ["" if late == "nobody" else ms(late_elapsed_s(by_name[n]), 1) for n in OWN_OF]
        row = f"| {ranks // RANKS_PER_HOST} | {late} | {times} | {' | '.join(own)} |"
        yield Figure(PAGE, row, "medians", file)
    transfer_s = median(r["Mbeta_s"] for r in load(file))
    yield Figure(PAGE, f"M*beta of {transfer_s * 1e3:.0f} ms", "medians", file)


def training() -> Iterator[Figure]:
    file = "training_nodes.jsonl"
    for delay_s, late in ((0, "nobody"), (0.3, "one by 0.3 s")):
        yield Figure(PAGE, f"| {late} | {of_hooks(file, delay_s)} |", "median", file)
    gloo_s, auto_s = (
        median(one(file, hook=hook, delay_s=0.3)["iterations_s"]) for hook in ("gloo", "auto")
    )
    text = f"it took {ms(gloo_s)} with Gloo, {ms(auto_s)} with the one line"
    yield Figure("README.md", text, "medians", file)


def patterns() -> Iterator[Figure]:
    file = "training_nodes_buckets.jsonl"
    late = {"two": "two", "half": "half", "uniform": "each at random", "stall": "stalls"}
    late |= {"moving": "another every 20 iterations", "random": "another in each iteration"}
    for pattern, name in late.items():
        gloo_s, ring_s, auto_s = (
            mean(one(file, hook=hook, pattern=pattern)["iterations_s"])
            for hook in ("gloo", "ring", "auto")
        )
        times = " | ".join(map(ms, (gloo_s, ring_s, auto_s)))
        row = f"| {name} | {times} | {auto_s / min(gloo_s, ring_s):.2f} |"
        yield Figure(PAGE, row, "means", file)


def simulated() -> Iterator[Figure]:
    file = "nodes_simulated.jsonl"
    late, trace = (one(file, hosts=64, arrivals=arrivals) for arrivals in ("rank", "trace"))
    after = late["after"]
    text = (
        f"makes {after['slt by rank']:.0f} M*beta of {after['slt by host']:.2f}; the ring takes "
        f"{after['ring by host']:.2f}"
    )
    yield Figure(PAGE, text, "mean", file)
    saved_s = benchmark.saved_s(trace, "slt by host", "ring by host")
    yield Figure(PAGE, f"saves {saved_s / 60:.0f} min of a day over the ring", "mean", file)


def figures() -> Iterator[Figure]:
    yield from single()
    yield from training()
    yield from patterns()
    yield from simulated()
