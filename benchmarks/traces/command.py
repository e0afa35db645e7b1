"""The command line of the benchmarks that replay traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.lab.arguments import command_line
from benchmarks.lab.plan import Record, write_records

from . import FOLDER, Iteration, names, read


def run_on_traces(
    name: str,
    description: str | None,
    measure: Callable[[str, dict[int, list[Iteration]]], list[Record]],
    print_tables: Callable[[list[Record]], None],
    draw: Callable[[list[Record], Path], None],
) -> None:
    """Measure the chosen traces, print, and write what is asked for."""
    parser = command_line(name, description)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of other traces")
    parser.add_argument("--traces", nargs="+", help="names; default: all of the folder")
    parser.add_argument("--results", type=Path, help="write JSON lines here, the picture beside")
    options = parser.parse_args()

    records = []
    for trace in options.traces or names(options.folder):
        records += measure(trace, read(trace, options.folder))
    print(*map(json.dumps, records), sep="\n")
    print_tables(records)
    if options.results:
        write_records(options.results, records)
        draw(records, options.results.with_suffix(".png"))
