"""What the machinery costs, and how good its model of the network is: docs/performance.md."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tests.figures.records import Figure, load, mean, median, one

FOOTGUNS = "docs/footguns.md"
PAGE = "docs/performance.md"


def layers() -> Iterator[Figure]:
    file = "layers.jsonl"
    added_us = {record["parameters"]: record["added_us"] for record in load(file)}
    for parameters, us in added_us.items():
        time = f"{us / 1e3:.1f} ms" if us > 100 else f"{us:.0f} us"
        yield Figure(
            PAGE, f"| layer callbacks, {parameters:,} parameters | {time} |", "median", file
        )
    text = (
        f"{added_us[1000] / 1e3:.1f} ms for 1,000 parameters, {added_us[3000] / 1e3:.1f} ms for "
        "3,000"
    )
    yield Figure(FOOTGUNS, text, "medians", file)
    text = ", ".join(
        f"{added_us[parameters]:,.0f} us with {parameters:,}{' parameters' * (parameters == 10)}"
        for parameters in (10, 100, 1000, 3000)
    )
    each_us = [record["plain_us"] / record["parameters"] for record in load(file)]
    text += f", beside {min(each_us):.0f} to {max(each_us):.0f} us"
    yield Figure("hooks/layers.py", text, "medians", file)


def leader() -> Iterator[Figure]:
    file = "leader.jsonl"
    for record in load(file):
        row = (
            f"| the leader's decision, {record['ranks']:,} ranks | "
            f"{record['decision_ms'] * 1e3:.0f} us |"
        )
        yield Figure(PAGE, row, "median", file)


def secret() -> Iterator[Figure]:
    file = "secret.jsonl"
    small, larger = (one(file, bytes=size_bytes)["median_s"] for size_bytes in (1024, 65536))
    text = (
        f"1 KiB takes {small['proved'] * 1e6:.1f} us with a secret and {small['plain'] * 1e6:.1f} "
        f"us without, 64 KiB {larger['proved'] * 1e6:.1f} us and {larger['plain'] * 1e6:.1f} us"
    )
    yield Figure("SECURITY.md", text, "medians", file)


def simulator() -> Iterator[Figure]:
    file = "simulated.jsonl"
    cells = [record for record in load(file) if "simulated_s" in record]
    logs = [math.log(cell["simulated_s"] / cell["measured_s"]) for cell in cells]
    summary = one(file, cells=len(cells))
    error = math.exp(mean(abs(log) for log in logs)) - 1
    plain_link = summary["with_plain_link"]["error"]
    text = (
        f"{error:.1%} apart, the geometric mean of {len(cells)} cells; {plain_link:.1%} with "
        "nothing but the link"
    ).replace("%", " %")
    yield Figure(PAGE, text, "geometric mean", file)
    worst = max(cells, key=lambda cell: abs(math.log(cell["simulated_s"] / cell["measured_s"])))
    text = f"`{worst['algorithm']}`, 4 KiB, {-worst['error']:.0%} too short".replace("%", " %")
    assert worst["bytes"] == 4096
    yield Figure(PAGE, text, "worst", file)


def clairvoyant() -> Iterator[Figure]:
    file = "clairvoyant_allreduce.jsonl"
    ratios = [
        record["clairvoyant"][0] / min(rival["makespan"][0] for rival in record["rivals"].values())
        for record in load(file)
    ]
    sooner = [1 - ratio for ratio in ratios if 1 - ratio >= 0.05]
    text = (
        f"by more than {(max(ratios) - 1) * 100:.1f} %, and in {len(sooner)} of {len(ratios)} "
        f"cases {min(sooner) * 100:.0f} to {max(sooner) * 100:.0f} % sooner"
    )
    yield Figure(PAGE, text, "makespan", file)


def named() -> Iterator[Figure]:
    file = "causes.jsonl"
    late = [record for record in load(file) if record["cause"]]
    assert not sum(record["others"] for record in late)
    balanced = [record for record in load(file) if not record["cause"]]
    assert not sum(record["alarms"] for record in balanced)

    def after(ranks: int, part: float) -> str:
        of = [r["after"] for r in late if (r["ranks"], r["part"]) == (ranks, part)]
        return f"{median(of):g}"

    right = sum(record["named"] for record in late)
    yield Figure(PAGE, f"named in {right} of {len(late)} cases", "median", file)
    row = f"| 4 | {after(4, 0.05)} | {after(4, 0.2)} | {after(4, 1.0)} |"
    yield Figure(PAGE, row, "median", file)
    yield Figure(PAGE, f"| 8 | not tried | {after(8, 0.2)} | {after(8, 1.0)} |", "median", file)
    text = f"In {sum(r['iterations'] for r in balanced):,} iterations in which nobody"
    yield Figure(PAGE, text, "median", file)


def figures() -> Iterator[Figure]:
    yield from layers()
    yield from leader()
    yield from secret()
    yield from simulator()
    yield from clairvoyant()
    yield from named()
