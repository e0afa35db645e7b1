"""What ARCHITECTURE.md says was measured."""

from __future__ import annotations

from collections.abc import Iterator

from tests.figures.records import (
    Figure,
    after_s,
    average_elapsed_s,
    load,
    median,
    ms,
    one,
    percent,
    time_text,
)
from tests.figures.reproducible import median_of_ratios

PAGE = "ARCHITECTURE.md"
TRACES = ("AR", "SE", "ST")


def orders() -> Iterator[Figure]:
    file = "wrong_order.jsonl"
    after = {
        way: one(file, trace="SE", way=way)["mean_after"]
        for way in ("dynamic", "predicted", "perfect", "ring")
    }
    text = (
        f"*after* is {after['dynamic']:.2f} M*beta, {after['predicted']:.2f} in the predicted "
        f"order, {after['perfect']:.2f} in the true one, {after['ring']:.2f} with a ring"
    )
    yield Figure(PAGE, text, "mean", file)


def predictions() -> Iterator[Figure]:
    file = "prediction.jsonl"
    decisions = [record for record in load(file) if record["moment"] == "decision"]
    combined, best = [], []
    for trace in TRACES:
        named = {r["predictor"]: r["named"] for r in decisions if r["trace"] == trace}
        iterations = next(r["iterations"] for r in decisions if r["trace"] == trace)
        combined.append(f"{named.pop('combined')} of {iterations}")
        best.append(str(max(named.values())))
    text = (
        f"the last rank is named in {combined[0]}, {combined[1]} and {combined[2]} iterations of "
        f"three traces, by the best component alone in {best[0]}, {best[1]} and {best[2]}"
    )
    yield Figure(PAGE, text, "named", file)


def choice() -> Iterator[Figure]:
    file = "simulation.jsonl"
    ring = one(file, algorithm="ring", ranks=10_000, pattern="together")
    text = (
        f"a ring of 10,000 ranks in {ring['seconds']:.0f} s and {ring['peak_memory_mib']} MiB "
        "(single run"
    )
    yield Figure(PAGE, text, "single run", file)
    file = "clairvoyant_allreduce.jsonl"
    worst = max(
        r["clairvoyant"][0] / min(rival["makespan"][0] for rival in r["rivals"].values())
        for r in load(file)
    )
    yield Figure(PAGE, f"by more than {percent(worst, 1)} (simulated)", "makespan", file)
    file = "clairvoyant.jsonl"
    many, few = (one(file, ranks=512, repeats=repeats)["median_s"] for repeats in (50, 2))
    text = (
        f"{ms(many['bit_rows'])} against {ms(many['segment_tree'])} (medians of 50); in a run of 2 "
        f"repeats {ms(few['bit_rows'])} against {ms(few['segment_tree'])}"
    )
    yield Figure(PAGE, text, "medians", file)
    file = "segments.jsonl"
    together, late = (
        [
            f"{s * 1e3:.1f}"
            for s in one(file, algorithm="rabenseifner", late_s=late_s)["by_cuts_s"].values()
        ]
        for late_s in (0.0, 2e-3)
    )
    text = (
        f"in 1, 2, 4, 8 pieces takes {', '.join(together)} ms, with one rank late by 2 ms "
        f"{', '.join(late)} ms"
    )
    yield Figure(PAGE, text, "simulated", file)


def partners() -> Iterator[Figure]:
    """What it costs where ranks change partners."""
    file = "allreduce_partners.jsonl"

    def ratio(ranks: int, mib: int) -> str:
        rabenseifner, ring = (
            after_s(one(file, algorithm=name, ranks=ranks, bytes=mib << 20))
            for name in ("rabenseifner", "ring")
        )
        return f"{rabenseifner / ring:.2f}"

    text = (
        f"by *after*, `rabenseifner` takes {ratio(16, 4)} times as long as a ring with 16 ranks "
        f"and 4 MiB, {ratio(16, 1)} with 16 and 1 MiB, {ratio(8, 4)} and {ratio(8, 1)} with 8, "
        f"{ratio(4, 4)} and {ratio(4, 1)} with 4"
    )
    yield Figure(PAGE, text, "medians", file)


def segments() -> Iterator[Figure]:
    """What the rules of the book say of themselves."""
    file = "segments.jsonl"
    by_ranks = []
    for ranks in (5, 6, 12):
        record = one(file, algorithm="reproducible", ranks=ranks)
        ratios = [f"{time_s / record['ring_s']:.2f}" for time_s in record["by_cuts_s"].values()]
        by_ranks.append(f"P = {ranks} {', '.join(ratios)}")
    source = "csrc/algorithms/all_reduce/reproducible.cpp"
    yield Figure(source, "; ".join(by_ranks), "Simulated", file)
    together, late = (
        [f"{time_s * 1e3:.1f}" for time_s in record["by_cuts_s"].values()]
        for record in (one(file, algorithm="rabenseifner", late_s=late_s) for late_s in (0.0, 2e-3))
    )
    text = (
        f"in 1, 2, 4, 8 pieces: {', '.join(together)} ms; with a rank late by 2 ms "
        f"{', '.join(late)} ms"
    )
    source = "csrc/algorithms/all_reduce/rabenseifner.cpp"
    yield Figure(source, text, "Simulated", file)


def bits() -> Iterator[Figure]:
    file = "reproducible.jsonl"
    ratio = median_of_ratios(one(file, network="200mbit"))
    yield Figure(PAGE, f"{percent(ratio)} longer than our ring", "median", file)
    file = "tree_sum.jsonl"
    ratios = [r["tree_sum_s"] / r["openmpi_s"] for r in load(file) if r["case"] == "tree_sum"]
    text = f"between {percent(min(ratios))} less and {percent(max(ratios))} more than a local sum"
    yield Figure(PAGE, text, "ratios of medians", file)


def transports() -> Iterator[Figure]:
    file = "allreduce_shm.jsonl"
    small = one(file, algorithm="ring", ranks=2, bytes=1024)
    text = f"a ring of 2 ranks takes {time_text(average_elapsed_s(small))} for 1 KiB"
    yield Figure(PAGE, text, "median", file)
    ring_s, gloo_s = (
        average_elapsed_s(one(file, algorithm=algorithm, ranks=2, bytes=64 << 20))
        for algorithm in ("ring", "gloo")
    )
    text = f"takes {ms(ring_s, 1)} for 64 MiB (median), Gloo {ms(gloo_s, 1)}"
    yield Figure(PAGE, text, "median", file)
    file = "allreduce_200mbit.jsonl"
    gloo = one(file, algorithm="gloo", delay_s=0.0)
    bound_s = 2 * 7 / 8 * median(gloo["Mbeta_samples_s"])
    text = f"Gloo's ring takes {ms(after_s(gloo))} where {ms(bound_s)} is the bound"
    yield Figure(PAGE, text, "median", file)


def figures() -> Iterator[Figure]:
    yield from orders()
    yield from predictions()
    yield from choice()
    yield from partners()
    yield from segments()
    yield from bits()
    yield from transports()
