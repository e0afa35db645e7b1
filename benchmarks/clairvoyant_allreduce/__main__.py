"""Clairvoyant all-reduce against ring, slt and prr, and against what nothing can beat: simulated.

    python -m benchmarks.clairvoyant_allreduce
    python -m benchmarks.clairvoyant_allreduce --ranks 8 --bytes 1MiB 4MiB --latency-us 50

For every number of ranks, size, pattern and delay: makespan (first arrival to last finish) and
average elapsed, over their lower bounds (`patallreduce.lower_bound`). Delays are told in transfers
of the whole message, M * beta. The rivals have whichever number of segments is best for them, found
for each measure by doubling and halving; clairvoyant the one that the package chooses. `others` are
this package's remaining all-reduces, arrival-blind, with the segments that it chooses.

Every rank is told the true arrivals. Writes one JSON line per case, and a picture of them all, to
OUT/clairvoyant_allreduce.*, and prints tables.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import patallreduce as pat
from benchmarks.lab.arguments import command_line, parse_bytes
from benchmarks.lab.plan import read_records

from .cases import RANKS, SIZES_BYTES, cases
from .report import draw, print_tables


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("clairvoyant_allreduce", __doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--bytes", type=parse_bytes, nargs="+", default=list(SIZES_BYTES))
    parser.add_argument("--latency-us", type=float, default=20.0)
    parser.add_argument("--mbit", type=float, default=1000.0, help="of one port, per second")
    parser.add_argument("--reduce-bytes-per-s", type=float, default=5e9)
    parser.add_argument("--out", type=Path, default=Path("out/clairvoyant"), help="folder")
    parser.add_argument("--print-only", action="store_true", help="the records in OUT")
    return parser.parse_args(arguments)


def main() -> None:
    """Price every case, write and print it."""
    options = parse_arguments()
    results = options.out / "clairvoyant_allreduce.jsonl"
    if not options.print_only:
        link = pat.Link(options.latency_us * 1e-6, options.mbit * 125e3, options.reduce_bytes_per_s)
        options.out.mkdir(parents=True, exist_ok=True)
        with results.open("w", encoding="utf-8") as lines:
            for ranks in options.ranks:
                for record in cases(ranks, link, options.bytes):
                    record["latency_us"], record["mbit"] = options.latency_us, options.mbit
                    print(json.dumps(record), file=lines, flush=True)
    records = read_records(results)
    print_tables(records)
    draw(records, results.with_suffix(".png"))


if __name__ == "__main__":
    main()
