"""How well does tuning choose, whatever luck a day has? Tunings of a machine made of real ones.

    python -m benchmarks.tuned --network shm --ranks 4
    python -m benchmarks.simulated_tuning out/tuned/times*.jsonl --tunings 30

What calls take on that machine is what the regression says of all these times together. Each tuning
measures it with the errors that one of them had, go after go from some moment on, of what took
about as long, and takes as long as they took. Its rules are judged by what is true there, at sizes
that are held out. So a change of the search or of the fit shows in minutes, not in days; what a
machine does that these times do not tell stays unknown. Prints the penalties, and keeps one JSON
line for each tuning.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import cycle, islice
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.lab.environment import environment
from benchmarks.lab.plan import Record, write_records
from benchmarks.tuned.__main__ import SIZES, held_out
from patallreduce.decisions.fit import fitted
from patallreduce.decisions.regression import Regression
from patallreduce.decisions.rules import TuningFile
from patallreduce.decisions.times import Case, Method, Times, read_times
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import frozen
from patallreduce.tuning.measuring import GLOO, in_flight
from patallreduce.tuning.search import Search, prices_of, series_of, with_between

Timed = tuple[Case, Method, list[float]]


class Machine:
    """Takes for each call what the times say."""

    def __init__(self, files: list[Path], budget_s: float) -> None:
        read = [read_times(file) for file in files]
        self.described = read[0][0]
        self.link = Link(**{n: frozen(value) for n, value in self.described["link"].items()})
        tunings = [[go for go in times.in_order() if go[1] != GLOO] for _, times in read]
        self.prices_s = cache(partial(prices_of, link=self.link, nodes=()))
        self.seconds = cache(self._seconds)  # of one call, as nobody there knows
        together = Times()
        for _, times in read:
            for case, method, seconds in times.steadied().in_order():
                if method != GLOO:
                    together.add(case, method, seconds)
        sizes = {case._replace(message_bytes=0): 0 for case in together.cases()}
        self.cases = [case._replace(message_bytes=size) for case in sizes for size in SIZES]
        self.held_out = [
            case._replace(message_bytes=size) for case in sizes for size in held_out(SIZES)
        ]
        of: dict[tuple[str, bool], list[Case]] = defaultdict(list)
        for case in {*together.cases(), *with_between(self.cases), *self.held_out}:
            of[series_of(case)].append(case)
        self._known = {name: Regression(together, all_, self.prices_s) for name, all_ in of.items()}
        self.tunings = [self._by_octave(tuning) for tuning in tunings]
        calls_s = sum(
            sum(seconds) * (1 + 1 / len(seconds)) * in_flight(case)
            for tuning in tunings
            for case, _, seconds in tuning
        )
        goes = sum(map(len, tunings))
        self.beside_s = max(budget_s * len(files) - calls_s, 0.0) / goes  # a go's, beside its calls

    def _seconds(self, case: Case, method: Method) -> float:
        return self._known[series_of(case)].estimates({case: [method]})[case][method].seconds

    # The errors of each go, in order, of those that took about as long: logarithms.
    def _by_octave(self, tuning: Iterable[Timed]) -> dict[int, list[list[float]]]:
        found: dict[int, list[list[float]]] = defaultdict(list)
        for case, method, seconds in tuning:
            true_s = self.seconds(case, method)
            found[_octave(true_s)].append([math.log(value / true_s) for value in seconds])
        return found


def _octave(seconds: float) -> int:
    return round(math.log2(seconds))


def tuned(machine: Machine, seed: int, budget_s: float) -> tuple[TuningFile, int]:
    """The rules of one tuning, and how many goes it took."""
    chance = random.Random(seed)
    real = chance.choice(machine.tunings)
    begun = chance.random()
    errors = {
        octave: cycle(of[int(begun * len(of)) :] + of[: int(begun * len(of))])
        for octave, of in real.items()
    }
    search = Search(with_between(machine.cases), machine.link)
    times, left_s, goes = Times(), budget_s, 0
    while following := search.following(times, left_s):
        for case, method, repeats, _ in following:
            true_s = machine.seconds(case, method)
            nearest = min(errors, key=lambda octave: abs(octave - _octave(true_s)))
            values = islice(cycle(next(errors[nearest])), repeats)
            times.add(case, method, [true_s * math.exp(error) for error in values])
            left_s -= (repeats + 1) * true_s * in_flight(case) + machine.beside_s
            goes += 1
    alone = [case for case in machine.cases if not case.beside_others]
    return fitted(times, machine.described, machine.prices_s, alone), goes


def penalties(machine: Machine, file: TuningFile) -> Iterator[tuple[Case, float]]:
    """At the sizes that are held out: over the fastest, cut or not."""
    search = Search(machine.held_out, machine.link)
    for case in machine.held_out:
        rule = next(
            rule
            for rule in file.rules
            if rule.matches(
                case.collective, case.ranks, case.nodes, beside_others=case.beside_others
            )
            and rule.message_bytes[0] <= case.message_bytes <= rule.message_bytes[1]
        )
        whole = {method: machine.seconds(case, method) for method in machine.prices_s(case)}
        methods = search.methods(case, whole)
        least_s = min(machine.seconds(case, method) for method in methods)
        yield case, max(machine.seconds(case, rule.method) / least_s - 1, 0.0)


def record_of(seed: int) -> Record:
    """One tuning, in a process that has a machine."""
    file, goes = tuned(_machine, seed, _budget_s)
    found = list(penalties(_machine, file))
    costs = [cost for _, cost in found]
    return {
        "seed": seed,
        "goes": goes,
        "mean": statistics.fmean(costs),
        "most": max(costs),
        "over_a_twentieth": [[*case, cost] for case, cost in found if cost > 0.05],
        "environment": environment(),
    }


def _prepare(files: list[Path], budget_s: float) -> None:
    global _machine, _budget_s
    torch.set_num_threads(1)
    _machine, _budget_s = Machine(files, budget_s), budget_s


_machine: Machine
_budget_s: float


def table(records: list[Record]) -> Table:
    """All tunings together."""
    shown = Table(title="penalties at sizes that were held out, computed")
    for heading in ("tunings", "goes", "mean", "most", "mean over 2 %", "most over 10 %"):
        shown.add_column(heading, justify="right")
    shown.add_row(
        str(len(records)),
        f"{statistics.fmean(record['goes'] for record in records):.0f}",
        _text([record["mean"] for record in records]),
        _text([record["most"] for record in records]),
        str(sum(record["mean"] > 0.02 for record in records)),
        str(sum(record["most"] > 0.1 for record in records)),
    )
    return shown


def _text(values: list[float]) -> str:
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.2%} ± {error:.2%}"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulated_tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, help="times0.jsonl … of benchmarks.tuned")
    parser.add_argument("--tunings", type=int, default=30, help="to simulate (%(default)s)")
    parser.add_argument(
        "--budget-s", type=float, default=60.0, help="of each, as of the real ones (%(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/simulated_tuning"), help="folder")
    options = parser.parse_args()
    if options.tunings < 2:
        parser.error(f"--tunings: expected at least 2, got {options.tunings}")
    return options


def main() -> None:
    """Compute and tell."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    prepared = (options.files, options.budget_s)
    with multiprocessing.get_context("spawn").Pool(
        initializer=_prepare, initargs=prepared
    ) as processes:
        records = processes.map(record_of, range(options.tunings), chunksize=1)
    results = options.out / "simulated_tuning.jsonl"
    write_records(results, records)
    Console(width=120).print(table(records))
    print(f"records: {results}")


if __name__ == "__main__":
    main()
