"""Do decisions that were measured hold at sizes that were not? Rules against model and defaults.

    python -m benchmarks.tuned --network 200mbit --ranks 8

Tunes the ranks of the lab within a budget, as `python -m patallreduce tune` does, at some sizes,
several times; then measures others, in between. The penalty of a choice is what it takes over the
fastest of all that may be the fastest (by the model within half of it), less one: of the rules of
each tuning, of the model, of each collective's usual algorithm, and of what one half of the turns
at that size says, in the other half: no rule is to be expected better. Choices within the 5 % that
TUNE07 counts as ties are told. Prints a table, keeps one JSON line for each size that was held out,
and beside these the times and the rules of each tuning.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.lab.arguments import add_network, add_out, command_line
from benchmarks.lab.plan import Record, end_on_sigterm, make_plan, run_plan, write_records
from patallreduce.decisions.functions import Penalty, fastest, penalty
from patallreduce.decisions.times import Method
from patallreduce.statistics import trimmed_mean
from patallreduce.tuning.measuring import COLLECTIVES

SIZES = [1 << power for power in range(12, 23)]
THERE = "that size"
WHO = ("rules", "model", "usual", THERE)
EVERY = (0, 1, 2, 3)  # of four turns, there and back twice
HALVES = ((0, 3), (1, 2))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("tuned", __doc__)
    add_network(parser)
    parser.set_defaults(bytes=SIZES)
    parser.add_argument("--collectives", nargs="+", default=list(COLLECTIVES), choices=COLLECTIVES)
    parser.add_argument("--budget-s", type=float, default=60.0, help="of tuning (%(default)s)")
    parser.add_argument("--tunings", type=int, default=3, help="one after the other (%(default)s)")
    add_out(parser, "out/tuned", 900.0)
    return parser.parse_args()


def held_out(sizes: list[int]) -> list[int]:
    """One above every second but the last, as far as can be from these and the ones between."""
    quarters = (5, 7)  # of the size below
    return [quarters[n % 2] * size // 4 // 4 * 4 for n, size in enumerate(sizes[:-1:2])]


def penalty_of(who: str, records: list[Record]) -> Penalty:
    """Over the sizes that were held out."""
    judged = [one for record in records for one in _judged(who, record)]
    by_number = {(number, 0): seconds for number, (_, seconds) in enumerate(judged)}
    return penalty(lambda number, _: judged[number][0], by_number)


def one_tuning(records: list[Record], number: int) -> list[Record]:
    """As if there had been this one alone."""
    return [
        {**record, "chosen": {**record["chosen"], "rules": [record["chosen"]["rules"][number]]}}
        for record in records
    ]


def means_s(record: Record, of_four: Sequence[int] = EVERY) -> dict[Method, float]:
    """Of each method, the trimmed mean of these of every four turns."""
    return {
        Method(way): trimmed_mean([s for turn, s in enumerate(seconds) if turn % 4 in of_four])
        for way, seconds in record["turns_s"].items()
    }


def _judged(who: str, record: Record) -> Iterator[tuple[Method, dict[Method, float]]]:
    """A choice, and what it is judged by."""
    if who != THERE:
        yield from ((Method(way), means_s(record)) for way in record["chosen"][who])
        return
    one, other = (means_s(record, turns) for turns in HALVES)
    yield fastest(one), other
    yield fastest(other), one


def table(records: list[Record]) -> Table:
    """Penalties by collective and overall."""
    shown = Table(title="penalty at sizes that were held out, %: mean, 90 %, most; ties within 5 %")
    for heading in ("collective", "sizes", *WHO):
        shown.add_column(heading, justify="left" if heading == "collective" else "right")
    names = dict.fromkeys((r["collective"], r["beside_others"]) for r in records)
    groups = {
        f"{name}{' beside others' if beside else ''}": [
            r for r in records if (r["collective"], r["beside_others"]) == (name, beside)
        ]
        for name, beside in names
    }
    for name, of in {**groups, "all": records}.items():
        shown.add_row(name, str(len(of)), *(_text(penalty_of(who, of)) for who in WHO))
    return shown


def _text(of: Penalty) -> str:
    return f"{of.mean:.1%}, {of.ninety:.0%}, {of.most:.0%}; {of.ties:.0%}"


def main() -> None:
    """Measure and tell."""
    options = parse_arguments()
    end_on_sigterm()
    plan = make_plan(options, "ranks.jsonl", held_out=held_out(sorted(options.bytes)))
    records = run_plan(plan, options.ranks, "benchmarks.tuned.worker")
    write_records(options.out / "tuned.jsonl", records)
    console = Console(width=120)
    console.print(table(records))
    for number in range(options.tunings):
        of = penalty_of("rules", one_tuning(records, number))
        console.print(
            f"tuning {number}, in {records[0]['tuned_s'][number]:.1f} s, a file of "
            f"{records[0]['file_bytes'][number]} bytes: {_text(of)}"
        )


if __name__ == "__main__":
    main()
