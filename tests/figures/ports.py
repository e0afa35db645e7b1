"""Ports that differ, and arrivals that spread: what docs/performance.md says of direct exchange."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks.changing.__main__ import LAST, answered
from tests.figures.records import Figure, after_s, load, mean, median, ms, one, percent

PAGE = "docs/performance.md"
RIVALS = ("gloo", "ring", "direct_exchange", "auto")
PAYLOAD = 1448 / 1514  # of an Ethernet frame
ARRIVALS = ("gloo", "ring", "slt", "prr", "direct_exchange")
# By the rates of ports in Mbit/s: what is said of them, and their limit in M*beta of the widest.
PORTS = {
    (*[200.0] * 7, 100.0): ("one at a half", 2),
    (*[200.0] * 7, 20.0): ("one at a tenth", 10),
    (*[200.0] * 4, *[50.0] * 4): ("half of them at a quarter", 4),
}


def rates(network: str) -> tuple[float, ...]:
    return tuple(float(rate.removesuffix("mbit")) for rate in network.split(","))


def single() -> Iterator[Figure]:
    file = "unequal.jsonl"
    cases = dict.fromkeys((r["network"], r["delay_s"]) for r in load(file))
    transfer_s = min(r["Mbeta_s"] for r in load(file))  # between two of the widest ports
    yield Figure(PAGE, f"M*beta of a wide port, {ms(transfer_s)}", "medians", file)
    for network, delay_s in cases:
        of = {
            r["algorithm"]: r
            for r in load(file)
            if (r["network"], r["delay_s"]) == (network, delay_s)
        }
        name, limit = PORTS.get(rates(network), ("evenly down to a quarter", 4))
        times = " | ".join(ms(after_s(of[rival])) for rival in RIVALS)
        limit_s = limit * transfer_s
        late = "another by 0.5 s" if delay_s else "nobody"
        row = f"| {name} | {late} | {times} | {ms(limit_s)} |"
        yield Figure(PAGE, row, "medians", file)


def training() -> Iterator[Figure]:
    file = "training_unequal.jsonl"
    for buckets, delay_s, late in ((1, 0, "nobody"), (1, 0.3, "one by 0.3 s"), (4, 0, "nobody")):
        times = " | ".join(
            f"{ms(median(times_s))} | {ms(mean(times_s))}"
            for hook in ("gloo", "ring", "auto")
            for times_s in [one(file, hook=hook, delay_s=delay_s, buckets=buckets)["iterations_s"]]
        )
        yield Figure(PAGE, f"| {buckets} | {late} | {times} |", "median", file)


def spread() -> Iterator[Figure]:
    file = "spread.jsonl"
    names = {3: "three by 0.5 s", 7: "seven, by 20 ms each", 4: "four, by up to 120 ms"}
    cases = dict.fromkeys((r["ranks"], tuple(r["arrivals_s"])) for r in load(file))
    for ranks, arrivals_s in cases:
        rows = [r for r in load(file) if r["arrivals_s"] == list(arrivals_s)]
        of = {r["algorithm"]: r for r in rows if r["ranks"] == ranks}
        late = names.get(sum(at_s > 0 for at_s in arrivals_s), "nobody")
        times = " | ".join(ms(after_s(of[name])) for name in ARRIVALS)
        yield Figure(PAGE, f"| {ranks} | {late} | {times} |", "medians", file)


def unlearned() -> Iterator[Figure]:
    file = "spread.jsonl"
    few, many = (
        ms(after_s(one(file, ranks=ranks, delay_s=0.0, algorithm="auto"))) for ranks in (8, 16)
    )
    yield Figure(PAGE, f"takes {few} with 8 ranks and {many} with 16", "medians", file)


def changing() -> Iterator[Figure]:
    for file in ("changing.jsonl", "changing_buckets.jsonl"):
        for record in load(file):
            end = len(record["iterations_s"])
            borders = [0, *record["changes"], end]
            spans = list(itertools.pairwise(borders))
            before, narrow, wide = (
                ms(median(record["iterations_s"][last - LAST : last])) for _, last in spans
            )
            soon, back = (answered(record, *span) for span in spans[1:])
            hook = {"gloo": "Gloo", "ring": "`ring`", "auto": "`auto`"}[record["hook"]]
            row = (
                f"| {record['buckets']} | {hook} | {before} | {narrow} | {soon} | {wide} | {back} |"
            )
            yield Figure(PAGE, row, "median", file)


def wide_ports() -> Iterator[Figure]:
    """What iterations take while the ports of `changing` are alike, beside the rivals."""
    files = ("changing.jsonl", "changing_buckets.jsonl")
    behind = {}
    for file in files:
        of = {record["hook"]: record for record in load(file)}
        ends = (of["auto"]["changes"][0], len(of["auto"]["iterations_s"]))
        for rival in ("ring", "gloo"):
            behind[file, rival] = max(
                median(of["auto"]["iterations_s"][end - LAST : end])
                / median(of[rival]["iterations_s"][end - LAST : end])
                for end in ends
            )
    ring = max(behind[file, "ring"] for file in files)
    gloo = behind["changing_buckets.jsonl", "gloo"]
    text = (
        f"up to {percent(ring, 1)} behind the ring, and with 4 buckets up to "
        f"{percent(gloo, 1)} behind Gloo"
    )
    yield Figure(PAGE, text, "median", "changing_buckets.jsonl")


def figures() -> Iterator[Figure]:
    yield from single()
    yield from training()
    yield from spread()
    yield from unlearned()
    yield from changing()
    yield from wide_ports()
