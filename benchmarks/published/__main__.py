"""Does the simulator give what PAP18 measured? Its Tables 3 and 4, simulated beside the published.

    python -m benchmarks.published --output FILE.jsonl --picture FILE.png

48 ranks, segments as published (one per rank; Rabenseifner one per part), Hockney's link to the
letter: 10 us latency, 0.94 Gbit/s (Gigabit Ethernet less its headers), sums at 5 GB/s; predictions
are right. Ring and Rabenseifner ignore arrivals; PRR's tau is the link's time for 1/P of the data.
Table 3 has a third row, what another simulator gave for the same link. One JSON line per cell.
Exits with 1 if a cell of Table 3 is off by more than 10 % from the paper's or 3 % from the other
simulator's, or a speed-up of Table 4 is on the wrong side of 1 where the paper's is above 1.05.

Source: Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 5.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.lab.arguments import command_line
from benchmarks.lab.plan import write_records

from .cells import LINK, table_3, table_4
from .report import draw, print_tables
from .tables import RANKS


def main() -> int:
    """Simulate both tables, print them beside the published ones, and write what was asked for."""
    parser = command_line("published", __doc__)
    parser.add_argument("--patterns", type=int, default=64, help="arrival patterns per rand-late")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON lines")
    parser.add_argument("--picture", type=Path, help="PNG")
    options = parser.parse_args()

    records = [*table_3(), *table_4(options.patterns, options.seed)]
    how = {"ranks": RANKS, "patterns": options.patterns, "seed": options.seed, "link": asdict(LINK)}
    print_tables(records)
    if options.output:
        write_records(options.output, ({**record, **how} for record in records))
    if options.picture:
        draw(records, options.picture)
    wrong = [r for r in records if not r["right"] and r.get("paper_speed_up", 2) > 1]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
