"""Whole iterations of training: what the documents say of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from tests.figures.records import Figure, Record, load, mean, median, ms, one, percent

README = "README.md"
FOOTGUNS = "docs/footguns.md"
PAGE = "docs/performance.md"


def typical_s(record: Record) -> float:
    return median(record["iterations_s"])


def training() -> Iterator[Figure]:
    cases = [
        ("always the same", delay_s, "training.jsonl", "fixed") for delay_s in (0.1, 0.3, 0.5, 1.0)
    ] + [
        ("another every 20 iterations", 0.5, "training_moving.jsonl", "moving"),
        ("another in each iteration", 0.5, "training_moving.jsonl", "random"),
    ]
    for late, delay_s, file, pattern in cases:
        gloo, ours = (
            one(file, hook=hook, pattern=pattern, delay_s=delay_s) for hook in ("gloo", "auto")
        )
        row = (
            f"| {late} | {delay_s:g} s | {ms(typical_s(gloo))} | {ms(mean(gloo['iterations_s']))} "
            f"| **{ms(typical_s(ours))}** | {ms(mean(ours['iterations_s']))} "
            f"| {ms(ours['bound_s'])} |"
        )
        yield Figure(PAGE, row, "median", file)
        if (pattern, delay_s) == ("fixed", 0.3):
            text = (
                f"took {ms(typical_s(gloo))} with plain DDP over Gloo, {ms(typical_s(ours))} with"
            )
            yield Figure(README, text, "medians", file)

    transfer_s = one("training.jsonl", hook="auto", delay_s=0.5)["Mbeta_s"]
    yield Figure(PAGE, f"M*beta is {ms(transfer_s)} here", "median", "training.jsonl")
    slowest_s = max(one("training.jsonl", hook="auto", delay_s=0.3)["iterations_s"])
    yield Figure(PAGE, f"at 0.3 s up to {ms(slowest_s)}", "median", "training.jsonl")
    moving = one("training_moving.jsonl", hook="auto", pattern="moving")["iterations_s"]
    text = f"the slowest of {len(moving)} took {ms(max(moving))}"
    yield Figure(PAGE, text, "slowest", "training_moving.jsonl")


def nobody_late() -> Iterator[Figure]:
    file = "training_balanced_gloo.jsonl"
    names = {"gloo": "plain DDP over Gloo", "ring": "`ring`, no monitor", "auto": "`auto`"}
    records = {hook: one(file, hook=hook) for hook in names}
    for hook, name in names.items():
        times_s = records[hook]["iterations_s"]
        row = f"| {name} | {ms(median(times_s))} | {ms(mean(times_s))} |"
        yield Figure(PAGE, row, "median", file)
    means_s = {hook: mean(record["iterations_s"]) for hook, record in records.items()}
    longer = percent(means_s["auto"] / means_s["ring"])
    text = f"`auto` takes {longer} longer on the mean than the plain ring"
    yield Figure(PAGE, text, "mean", file)

    file = "training_balanced.jsonl"
    ring, auto = (one(file, hook=hook)["iterations_s"] for hook in ("ring", "auto"))
    text = (
        f"(2 ranks, 1 Gbit/s, 1 MiB, {ms(median(auto))} per iteration) monitor, callbacks and "
        f"plans cost {percent(median(auto) / median(ring), 1)} (mean "
        f"{percent(mean(auto) / mean(ring), 1)})"
    )
    yield Figure(PAGE, text, "median", file)

    file = "training_reversed.jsonl"
    ring, wrong = (one(file, hook=hook) for hook in ("ring", "reversed"))
    text = f"takes {percent(typical_s(wrong) / typical_s(ring))} less time than the plain ring"
    yield Figure(PAGE, text, "median", file)


def several_buckets() -> Iterator[Figure]:
    file = "training_buckets.jsonl"
    late = {"two": "two ranks", "uniform": "each at random", "stall": "stalls", "fixed": "one rank"}
    worst = 0.0
    for ours in load(file):
        if ours["hook"] != "auto":
            continue
        case = {key: ours[key] for key in ("ranks", "network", "buckets", "pattern", "delay_s")}
        hooks = {hook: one(file, hook=hook, **case) for hook in ("gloo", "ring", "auto")}
        means_s = {hook: mean(record["iterations_s"]) for hook, record in hooks.items()}
        ratio = means_s["auto"] / min(means_s["gloo"], means_s["ring"])
        worst = max(worst, ratio)
        name = late[case["pattern"]] if case["delay_s"] else "nobody"
        times = " | ".join(ms(means_s[hook]) for hook in ("gloo", "ring", "auto"))
        rate = case["network"].removesuffix("mbit")
        where = f"{case['ranks']}, {rate} Mbit/s | {case['buckets']}"
        row = f"| {where} | {name} | {times} | {ratio:.2f} |"
        yield Figure(PAGE, row, "means", file)
    yield Figure(PAGE, f"at most {percent(worst)} slower", "means", file)

    file = "training_segments.jsonl"
    few, some, more, most = (
        ms(mean(one(file, hook=f"ring{segments}")["iterations_s"])) for segments in (5, 10, 15, 40)
    )
    text = f"the ring takes {few} in 5 segments per bucket, {some} in 10, {more} in 15 and {most}"
    yield Figure(PAGE, text, "means", file)
    ring5, ring40 = (
        mean(one(file, hook=f"ring{segments}")["iterations_s"]) for segments in (5, 40)
    )
    text = f"5 are {percent(ring5 / ring40)} slower than 40"
    yield Figure("ARCHITECTURE.md", text, "means", file)


def mean_and_error(times_s: list[float]) -> str:
    error_s = statistics.stdev(times_s) / math.sqrt(len(times_s))
    return f"{mean(times_s) * 1e3:.0f} ± {ms(error_s)}"


def three_late() -> Iterator[Figure]:
    file = "training_three_late.jsonl"
    hooks = ("slt", "ring", "gloo", "auto")
    means_s = {
        ranks: {hook: mean(one(file, hook=hook, ranks=ranks)["iterations_s"]) for hook in hooks}
        for ranks in (16, 8)
    }
    for hook in hooks:
        name = "Gloo" if hook == "gloo" else f"`{hook}`"
        row = f"| {name} | {ms(means_s[16][hook])} | {ms(means_s[8][hook])} |"
        yield Figure(PAGE, row, "means", file)
    for ranks, document in ((16, FOOTGUNS), (16, PAGE), (8, PAGE)):
        auto, slt = (
            mean_and_error(one(file, hook=hook, ranks=ranks)["iterations_s"])
            for hook in ("auto", "slt")
        )
        yield Figure(document, f"{auto} against {slt}", "means", file)
    for ranks in (16, 8):
        auto, slt = (
            ms(median(one(file, hook=hook, ranks=ranks)["iterations_s"]))
            for hook in ("auto", "slt")
        )
        for document in (PAGE, FOOTGUNS):
            yield Figure(document, f"{auto} against {slt} with {ranks}", "medians", file)
    file = "jobs_three_late.jsonl"
    ratios = [record["ratio"] for record in load(file)]
    text = (
        f"at most 1.02 of that of the best fixed policy in {sum(r <= 1.02 for r in ratios)} of "
        f"{len(ratios)} jobs; the worst has {max(ratios):.3f}"
    )
    yield Figure(PAGE, text, "Simulated", file)


def real_models() -> Iterator[Figure]:
    file = "training_models.jsonl"
    names = {"resnet18": "ResNet18", "transformer": "transformer"}
    for auto in (r for r in load(file) if r["hook"] == "auto"):
        case = {key: auto[key] for key in ("model", "delay_s")}
        means_s = [
            mean(one(file, hook=hook, **case)["iterations_s"]) for hook in ("gloo", "ring", "auto")
        ]
        late = f"one, by {auto['delay_s']:g} s" if auto["delay_s"] else "nobody"
        model = f"{names[auto['model']]}, {auto['bytes'] / 2**20:.0f} MiB | {auto['buckets']}"
        times = " | ".join(ms(mean_s) for mean_s in means_s)
        yield Figure(PAGE, f"| {model} | {late} | {times} |", "means", file)
    ours = [r for r in load(file) if r["hook"] == "auto"]
    gloos = [one(file, hook="gloo", model=r["model"], delay_s=r["delay_s"]) for r in ours]
    longer = [
        percent(mean(r["iterations_s"]) / mean(gloo["iterations_s"]))
        for r, gloo in zip(ours, gloos, strict=True)
    ]
    text = (
        f"With ResNet18 `auto` takes {longer[0].removesuffix(' %')} and {longer[1]} longer than "
        f"Gloo, with the transformer {longer[2]} longer and {longer[3]} less"
    )
    yield Figure(PAGE, text, "means", file)
    text = f"took {longer[0].removesuffix(' %')} to {longer[1]} longer with `auto`"
    yield Figure(FOOTGUNS, text, "means", file)


SEEN_JOBS = 300  # while the planner was made


def jobs() -> Iterator[Figure]:
    file = "jobs.jsonl"
    records = load(file)
    ratios = [record["ratio"] for record in records]

    def share(near: float, of: list[float]) -> str:
        return f"{sum(ratio <= near for ratio in of) / len(of) * 100:.1f} %"

    text = (
        f"takes at most 1.02 of the best fixed policy's time in {share(1.02, ratios)} of "
        f"{len(records):,} jobs, at most 1.05 in {share(1.05, ratios)}; "
        f"the worst takes {max(ratios):.2f}"
    )
    yield Figure(PAGE, text, "mean", file)
    seen, others = ratios[:SEEN_JOBS], ratios[SEEN_JOBS:]
    text = (
        f"The first {len(seen)} of them were looked at while planner and guard were made: there it "
        f"takes at most 1.02 in {share(1.02, seen)} and at most 1.05 in {share(1.05, seen)}, in "
        f"the other {len(others)} in {share(1.02, others)} and {share(1.05, others)}"
    )
    yield Figure(PAGE, text, "mean", file)
    worse = [record["pattern"] for record in records if record["ratio"] > 1.02]
    moves = sum(pattern in {"random", "uniform", "moving"} for pattern in worse)
    yield Figure(
        PAGE, f"Of the {len(worse)} jobs that are worse than 1.02, {moves} have", "mean", file
    )
    best_s = [min(record["paces_s"].values()) for record in records]
    for name in ("ring", "slt", "slt_by_bucket", "prr", "direct_exchange", "own"):
        fixed = [r["paces_s"][name] / s for r, s in zip(records, best_s, strict=True)]
        row = f"| {share(1.02, fixed)} | {share(1.05, fixed)} | {max(fixed):.2f} |"
        yield Figure(PAGE, row, "mean", file)
    row = f"| {share(1.02, ratios)} | {share(1.05, ratios)} | {max(ratios):.2f} |"
    yield Figure(PAGE, row, "mean", file)


def measured_jobs() -> Iterator[Figure]:
    file = "jobs_measured.jsonl"
    records = load(file)
    ratios = [record["ratio"] for record in records]
    within = sum(ratio <= 1.02 for ratio in ratios)
    # As far as the measurement can tell: by more than two standard errors.
    behind = sum(r["ratio"] - 2 * r["standard_error"] > 1.02 for r in records)
    text = (
        f"at most 1.02 of the better rival's time in {within} of {len(ratios)} jobs; "
        f"in {behind or 'none'} it takes more by more than two standard errors; "
        f"the median is {median(ratios):.3f}, the best {min(ratios):.2f}, "
        f"the worst {max(ratios):.2f}"
    )
    yield Figure(PAGE, text, "means", file)
    nobody = [record["ratio"] for record in records if record["pattern"] == "none"]
    text = f"In the {len(nobody)} jobs in which nobody is late it takes at most {max(nobody):.3f}"
    yield Figure(PAGE, text, "means", file)
    text = (
        f"`auto` took {min(ratios):.2f} to {max(ratios):.2f} of the better of Gloo and our own "
        f"ring, {median(ratios):.2f} in the median, and at most 1.02 in {within} of {len(ratios)}"
    )
    yield Figure(FOOTGUNS, text, "means", file)
    ring_s = max(records, key=lambda record: record["ratio"])["iterations_s"]["ring"]
    text = f"in the worst one the same ring took {ms(min(ring_s))} to {ms(max(ring_s))}"
    yield Figure(PAGE, text, "means", file)
    for record in records:
        yield Figure(PAGE, measured_row(record), "means", file)
    file = "jobs_measured_again.jsonl"
    again = load(file)
    assert len(again) == len(ratios) - within
    text = ", ".join(f"{record['ratio']:.3f}" for record in again)
    yield Figure(PAGE, f"measured once more they took {text}", "means", file)
    text = ", ".join(ms(record["paces_s"]["gloo"]) for record in again)
    yield Figure(PAGE, f"Gloo took {text} then", "means", file)


def measured_row(record: Record) -> str:
    """The row of a measured job in the page's table."""
    mib = 4 * record["bucket_elements"] * record["buckets"] / 2**20
    rate = record["bytes_per_s"] * 8 / 1e6
    late = "nobody" if record["pattern"] == "none" else record["pattern"]
    times = [*record["paces_s"].values(), record["auto_s"]]
    error = record["standard_error"]
    return (
        f"| {record['ranks']}, {rate:.0f} Mbit/s | {record['buckets']}, {mib:.1f} MiB | {late} | "
        + " | ".join(ms(time_s) for time_s in times)
        + f" | {record['ratio']:.3f} ± {error:.3f} |"
    )


def turns() -> Iterator[Figure]:
    file = "turns.jsonl"
    records = load(file)
    for name in ("ring", "slt"):
        cells = []
        for turn in ("first_collective", "last_collective", "least_left"):
            paces_s = [record["paces_s"][name] for record in records]
            cells.append(f"{mean([of[turn] / of['first_ready'] for of in paces_s]):.3f}")
        yield Figure(PAGE, f"| `{name}` | {' | '.join(cells)} |", "mean", file)
    yield Figure(PAGE, f"{len(records)} simulated jobs of several buckets", "mean", file)


def figures() -> Iterator[Figure]:
    yield from training()
    yield from several_buckets()
    yield from three_late()
    yield from real_models()
    yield from jobs()
    yield from measured_jobs()
    yield from turns()
    yield from nobody_late()
