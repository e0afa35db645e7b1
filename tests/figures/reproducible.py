"""What the same bits cost: docs/reproducible.md."""

from __future__ import annotations

from collections.abc import Iterator

from tests.figures.records import Figure, Record, after_s, load, mean, median, ms, one, percent

PAGE = "docs/reproducible.md"


def median_of_ratios(record: Record) -> float:
    samples_s = record["samples_s"]
    turns = zip(samples_s["reproducible"], samples_s["ring"], strict=True)
    return median(ours / ring for ours, ring in turns)


def ratio_of_medians(record: Record) -> float:
    return median(record["samples_s"]["reproducible"]) / median(record["samples_s"]["ring"])


def by_host() -> Iterator[Figure]:
    file = "reproducible_nodes.jsonl"
    for ranks in (8, 16):
        times = [
            ms(after_s(one(file, ranks=ranks, algorithm=name)))
            for name in ("reproducible", "ring", "gloo")
        ]
        text = f"{ranks // 4} hosts {times[0]}, the ring {times[1]} and Gloo {times[2]}"
        yield Figure(PAGE, text, "medians", file)


def beside_ring() -> Iterator[Figure]:
    file = "reproducible.jsonl"
    slow = one(file, network="200mbit")
    row = (
        "| `reproducible`, 4 MiB, 8 ranks, 200 Mbit/s | our `ring` | "
        f"{median_of_ratios(slow):.2f} | {ratio_of_medians(slow):.2f} |"
    )
    yield Figure(PAGE, row, "median", file)
    shared = [one(file, network="shm", bytes=mib << 20) for mib in (1, 4, 16)]
    columns = [
        ", ".join(f"{ratio(record):.2f}" for record in shared)
        for ratio in (median_of_ratios, ratio_of_medians)
    ]
    row = (
        "| `reproducible`, 1, 4, 16 MiB, 2 ranks, shared memory | our `ring` | "
        f"{' | '.join(columns)} |"
    )
    yield Figure(PAGE, row, "median", file)


def any_ranks() -> Iterator[Figure]:
    file = "segments.jsonl"
    ratios = {
        record["ranks"]: record["by_rule_s"] / record["ring_s"]
        for record in load(file)
        if record["algorithm"] == "reproducible"
    }
    others = [ratio for ranks, ratio in ratios.items() if ranks & (ranks - 1)]
    powers = [ratio for ranks, ratio in ratios.items() if not ranks & (ranks - 1)]
    assert all(abs(ratio - 1) < 0.005 for ratio in powers)
    text = (
        f"simulated, {min(ratios)} to {max(ratios)} ranks, 4 MiB, 200 Mbit/s: from "
        f"{percent(min(others))} to {percent(max(others))} more time than a ring, "
        f"{percent(mean(others))} on the mean"
    )
    yield Figure(PAGE, text, "mean", file)


def tree_sum() -> Iterator[Figure]:
    file = "tree_sum.jsonl"
    runs = [record for record in load(file) if record["case"] == "tree_sum"]
    paired = [run["ratio"] for run in runs]
    of_medians = [run["tree_sum_s"] / run["openmpi_s"] for run in runs]
    columns = [
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        for ratios in (paired, of_medians)
    ]
    row = (
        "| `tree_sum` of 1 M float64, 2 ranks, shared memory | local sum and `MPI_Allreduce` "
        f"(Open MPI) | {' | '.join(columns)} |"
    )
    yield Figure(PAGE, row, "median", file)
    local = one(file, case="local")
    row = (
        "| local tree over 4 MiB of float64 | `torch.sum` | "
        f"{local['tree_over_torch_sum']:.2f} | {local['tree_s'] / local['torch_sum_s']:.2f} |"
    )
    yield Figure(PAGE, row, "median", file)


def leaves() -> Iterator[Figure]:
    file = "training_leaves.jsonl"
    times_s = {record["hook"]: record["iterations_s"] for record in load(file)}
    ring_s = median(times_s["ring"])
    computation_s = one(file, hook="ring")["late_computation_s"]
    yield Figure(PAGE, f"{ms(computation_s)} of computation", "median", file)
    names = {
        "ring": "`ring`",
        "reproducible": "`reproducible`",
        "leaves4": "`leaves=4`, one subtree per rank",
        "leaves8": "`leaves=8`, one subtree of two leaves",
        "leaves12": "`leaves=12`, two subtrees of three leaves",
    }
    for hook, name in names.items():
        typical_s = median(times_s[hook])
        more = "" if hook == "ring" else f"+ {percent(typical_s / ring_s)} "
        row = f"| {name} | {ms(typical_s)} | {ms(mean(times_s[hook]))} | {more}|"
        yield Figure(PAGE, row, "median", file)


def figures() -> Iterator[Figure]:
    yield from beside_ring()
    yield from by_host()
    yield from any_ranks()
    yield from tree_sum()
    yield from leaves()
