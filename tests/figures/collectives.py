"""Single all-reduces: what docs/performance.md and docs/footguns.md say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.figures.records import (
    Figure,
    Record,
    after_s,
    average_elapsed_s,
    late_elapsed_s,
    load,
    ms,
    one,
    percent,
    time_text,
)

FOOTGUNS = "docs/footguns.md"
PAGE = "docs/performance.md"
MEASURES = (average_elapsed_s, after_s)
NAMES = {"gloo": "Gloo", "openmpi": "Open MPI 4.1.4"}


def name_of(algorithm: str) -> str:
    return NAMES.get(algorithm, f"`{algorithm}`")


def behind(cell: list[Record], measure: Callable[[Record], float]) -> float:
    """What auto takes, over the best of the others."""
    auto = next(r for r in cell if r["algorithm"] == "auto")
    return measure(auto) / min(measure(r) for r in cell if r is not auto)


def cells(file: str, **values: object) -> list[list[Record]]:
    """The records of each delay, all algorithms."""
    found = [r for r in load(file) if all(r[key] == value for key, value in values.items())]
    delays = sorted({r["max_delay_s"] for r in found})
    return [[r for r in found if r["max_delay_s"] == delay] for delay in delays]


def worst(file: str, mode: str, measure: Callable[[Record], float]) -> float:
    return max(behind(cell, measure) for cell in cells(file, mode=mode))


def paper() -> Iterator[Figure]:
    file = "arrivals.jsonl"
    one_late = cells(file, mode="one-late")
    average, after = (max(behind(cell, measure) for cell in one_late) for measure in MEASURES)
    text = (
        f"at most {percent(average, 1)} behind the best of them by the average elapsed and "
        f"{percent(after, 1)} by *after*"
    )
    yield Figure(PAGE, text, "median", file)
    average, after = (worst(file, "rand-late", measure) for measure in MEASURES)
    text = (
        f"up to {percent(average, 1)} behind by the average elapsed and "
        f"{percent(after, 1)} by *after*"
    )
    yield Figure(PAGE, text, "median", file)
    file = "arrivals_trials.jsonl"
    average, after = (worst(file, "one-late", measure) for measure in MEASURES)
    assert max(average, after) < 1
    text = f"with one late rank {percent(average, 1)} and {percent(after, 1)} ahead"
    yield Figure(PAGE, text, "median", file)
    average, after = (worst(file, "rand-late", measure) for measure in MEASURES)
    text = f"with all late at random {percent(average, 1)} and {percent(after, 1)} behind"
    yield Figure(PAGE, text, "median", file)
    file = "arrivals_few_calls.jsonl"
    average, after = (worst(file, "one-late", measure) for measure in MEASURES)
    text = f"in another run, {percent(average, 1)} and {percent(after, 1)} behind"
    yield Figure(PAGE, text, "median", file)
    file = "arrivals_ranks.jsonl"
    for ranks in (5, 11):
        for mode, late in (("one-late", "rank 1"), ("rand-late", "each at random")):
            for cell in cells(file, ranks=ranks, mode=mode):
                by_name = {record["algorithm"]: record for record in cell}
                columns = [
                    f"{ms(average_elapsed_s(by_name[name]))}, {ms(after_s(by_name[name]))}"
                    for name in ("ring", "slt", "prr", "gloo", "auto")
                ]
                at_most_s = cell[0]["max_delay_s"]
                row = f"| {ranks} | {late} | {at_most_s:g} s | {' | '.join(columns)} |"
                yield Figure(PAGE, row, "median", file)


def three_late() -> Iterator[Figure]:
    file = "arrivals_three_late.jsonl"
    for algorithm in ("slt", "clairvoyant", "prr", "ring", "gloo", "auto"):
        columns = [
            ms(measure(one(file, algorithm=algorithm, ranks=ranks)))
            for ranks in (16, 8)
            for measure in MEASURES
        ]
        yield Figure(PAGE, f"| {name_of(algorithm)} | {' | '.join(columns)} |", "median", file)
    sixteen, eight = (cells(file, ranks=ranks)[0] for ranks in (16, 8))
    average, after = (behind(sixteen, measure) for measure in MEASURES)
    assert average > 1 > after
    text = f"`auto` is {percent(average)} behind the best algorithm by the average elapsed"
    for document in (PAGE, FOOTGUNS):
        yield Figure(document, text, "medians", file)
        yield Figure(document, f"{percent(after)} ahead by", "medians", file)
    average, after = (behind(eight, measure) for measure in MEASURES)
    assert average > 1 > after
    text = f"with 8 ranks {percent(average, 1)} behind and {percent(after)} ahead"
    for document in (PAGE, FOOTGUNS):
        yield Figure(document, text, "medians", file)


def one_late_rank() -> Iterator[Figure]:
    file = "allreduce_200mbit.jsonl"
    for algorithm in ("slt", "prr", "ring", "gloo", "openmpi"):
        together, late, very_late = (
            one(file, algorithm=algorithm, delay_s=delay_s) for delay_s in (0.0, 0.3, 1.0)
        )
        columns = [ms(after_s(together))]
        for record in (late, very_late):
            own_s = late_elapsed_s(record)
            columns += [ms(after_s(record)), ms(own_s, 1 if own_s < 10e-3 else 0)]
        yield Figure(PAGE, f"| {name_of(algorithm)} | {' | '.join(columns)} |", "median", file)
    transfer_s = one(file, algorithm="ring", delay_s=0.0)["Mbeta_s"]
    yield Figure(PAGE, f"from rank to rank, is {ms(transfer_s)}", "median", file)


def shared_memory() -> Iterator[Figure]:
    file = "allreduce_shm.jsonl"
    sizes_bytes = [1024 << power for power in (0, 6, 8, 10, 12, 14, 16)]
    for ranks in (2, 4):
        for algorithm in ("ring", "gloo", "openmpi"):
            times = [
                time_text(
                    average_elapsed_s(one(file, algorithm=algorithm, ranks=ranks, bytes=size))
                )
                for size in sizes_bytes
            ]
            row = f"| {name_of(algorithm)}, {ranks} ranks | {' | '.join(times)} |"
            yield Figure(PAGE, row, "median", file)


def figures() -> Iterator[Figure]:
    yield from paper()
    yield from three_late()
    yield from one_late_rank()
    yield from shared_memory()
