"""What do decision functions cost: encoded maps, models, fixed rules? TUNE07's chapters 5 and 6.

    python -m benchmarks.decisions --network 200mbit --ranks 2 3 4 5 6 8 12 16

Measures decision maps, ranks by bytes, one for each collective: every algorithm, cut by its own
rule, that the model does not think three times as slow as the fastest. Every second size is held
out: functions are made from the others. Told for each function: its leaves, what it costs on the
points that it was made from, and on those it was not, what a decision takes in C++.
`--again FOLDER` tells it once more from what was measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.lab.arguments import add_network, add_out, command_line
from benchmarks.lab.environment import processor
from benchmarks.lab.plan import (
    Record,
    end_on_sigterm,
    make_plan,
    read_records,
    run_plan,
    write_records,
)
from patallreduce.decisions.functions import Penalty, penalty
from patallreduce.decisions.times import Method

from .clock import code_ns, table_ns
from .functions import encoded, map_of, point_of, predicting
from .report import draw

SIZES = [1 << n for n in range(10, 21, 2)]
COLLECTIVES = ("broadcast", "reduce", "all_gather", "all_reduce")
RULES = 64


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("decisions", __doc__)
    add_network(parser)
    parser.set_defaults(ranks=[2, 3, 4, 5, 6, 8, 12, 16], bytes=SIZES)
    parser.add_argument("--collectives", nargs="+", default=list(COLLECTIVES), choices=COLLECTIVES)
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="measure nothing")
    add_out(parser, "out/decisions", 900.0)
    return parser.parse_args()


def held_out(sizes: list[int]) -> list[int]:
    """The powers of two between them."""
    return [2 * size for size in sizes[:-1]]


def figures(records: list[Record], parameters: list[Record], *, clock: bool) -> list[Record]:
    """A row of every function for one collective."""
    made_from = map_of([record for record in records if not record["held_out"]])
    unseen = map_of([record for record in records if record["held_out"]])
    rows = []
    for function in encoded(made_from):
        rows.append(
            {
                "function": function.name,
                "leaves": function.leaves,
                "made_from": penalty(function.decide, made_from)._asdict(),
                "held_out": penalty(function.decide, unseen)._asdict(),
                "ns": code_ns(function.encoded) if clock and function.encoded else None,
            }
        )
    for name, chosen in predicting(records, parameters).items():
        row = {"function": name, "leaves": 0, "ns": None}
        for part in ("made_from", "held_out"):
            of = [r for r in records if r["held_out"] == (part == "held_out")]
            row[part] = _of_ways(chosen, of)._asdict()
        rows.append(row)
    return rows


def _of_ways(chosen: dict[tuple[int, int], str], records: list[Record]) -> Penalty:
    by_point = {
        point_of(record): {Method(way): s for way, s in record["seconds"].items()}
        for record in records
    }
    return penalty(lambda ranks, size: Method(chosen[ranks, size]), by_point)


def table(collective: str, rows: list[Record]) -> Table:
    """For a reader."""
    shown = Table(title=f"{collective}: penalty, %", title_justify="left")
    shown.add_column("function")
    shown.add_column("leaves", justify="right")
    for heading in ("made from: mean", "most", "held out: mean", "median", "90 %", "most", "ns"):
        shown.add_column(heading, justify="right")
    for row in rows:
        seen, unseen = row["made_from"], row["held_out"]
        shown.add_row(
            row["function"],
            str(row["leaves"] or ""),
            *(f"{100 * seen[key]:.1f}" for key in ("mean", "most")),
            *(f"{100 * unseen[key]:.1f}" for key in ("mean", "median", "ninety", "most")),
            "" if row["ns"] is None else f"{row['ns']:.1f}",
        )
    return shown


def main() -> None:
    """Measure, and tell."""
    options = parse_arguments()
    end_on_sigterm()
    if options.again:
        records = read_records(options.again / "map.jsonl")
    else:
        plan = make_plan(options, "ranks.jsonl", held_out=held_out(sorted(options.bytes)))
        plan["again"] = None
        records = run_plan(plan, options.ranks, "benchmarks.decisions.worker")
        write_records(options.out / "map.jsonl", records)
    folder = options.again or options.out
    parameters = [record for record in records if "steps_s" in record]
    rows = []
    console = Console(width=130)
    for collective in dict.fromkeys(r["collective"] for r in records if "collective" in r):
        of = [record for record in records if record.get("collective") == collective]
        found = figures(of, parameters, clock=collective == options.collectives[0])
        console.print(table(collective, found))
        rows += [{"collective": collective, **row} for row in found]
        draw(collective, of, predicting(of, parameters), folder / f"{collective}.png")
    rows.append({"function": "table", "leaves": RULES, "ns": table_ns(RULES)})
    console.print(f"the table of a tuning file with {RULES} rules: {rows[-1]['ns']:.1f} ns")
    write_records(folder / "decisions.jsonl", [{**row, "processor": processor()} for row in rows])


if __name__ == "__main__":
    main()
