"""Is one algorithm faster than another, or was it chance? CLV16's statistics of recorded arrivals.

    python -m benchmarks.significance benchmarks/results/arrivals.jsonl --against ring

Reads what `benchmarks.arrivals` wrote. One table for each situation; every algorithm's run time
(first arrival to last finish) against that of one of them:

    median     of the run times over the iterations
    absorbed   normalised absorption: what it hides of the imbalance, in its run times without any;
               needs the same ranks and bytes with a delay of 0 among the records
    ratio      its median over the other's, with a bootstrap interval of 95 %
    p          probability of a ratio as far from 1 by chance: permutation test, 20,000 draws,
               one-sided; from 0.05 on the ratio is not significant
    runs p     runs test: below 0.05 its iterations depend on each other, and p says too little

Iterations of one mode may have different delays (rand-late), the same for all algorithms. The test
does not pair them up, so it then errs on the side of chance.

Source: Marendic, Lemeire, Vucinic, Schelkens, J. Supercomput. 72 (2016), sections 3.1 and 6.2.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.arrivals.report import situation
from benchmarks.lab.arguments import command_line
from benchmarks.lab.plan import Record, read_records
from patallreduce.statistics import (
    PERMUTATIONS,
    imbalance_s,
    normalised_absorption,
    permutation_p,
    ratio_interval,
    ratio_of_medians,
    run_time_s,
    runs_test,
)
from patallreduce.text.table import text_table
from patallreduce.text.units import bytes_text, ms_text

HEADINGS = ("algorithm", "median\nms", "absorbed", "ratio", "interval", "p", "runs p")


def run_times_s(record: Record) -> list[float]:
    """Run time of every iteration."""
    return [run_time_s(s["arrivals_s"], s["finishes_s"]) for s in record["samples"]]


def absorbed(record: Record, records: Sequence[Record]) -> float | None:
    """Return the median normalised absorption; None without balanced iterations alike."""
    kind = ("algorithm", "ranks", "bytes", "network")
    balanced_s = [
        time_s
        for other in records
        if other["max_delay_s"] == 0 and all(other[field] == record[field] for field in kind)
        for time_s in run_times_s(other)
    ]
    if not balanced_s or record["max_delay_s"] == 0:
        return None
    usual_s = statistics.median(balanced_s)
    return statistics.median(
        normalised_absorption(
            usual_s,
            run_time_s(sample["arrivals_s"], sample["finishes_s"]),
            imbalance_s(sample["arrivals_s"]),
        )
        for sample in record["samples"]
    )


def row(
    record: Record, other: Record, records: Sequence[Record], *, permutations: int = PERMUTATIONS
) -> list[str]:
    """Compare one record with that of the algorithm all are compared with."""
    mine_s, others_s = run_times_s(record), run_times_s(other)
    hidden = absorbed(record, records)
    cells = [
        record["algorithm"],
        ms_text(statistics.median(mine_s)),
        "-" if hidden is None else f"{hidden:.2f}",
    ]
    if record is other:
        cells += ["1", "", ""]
    else:
        ratio = ratio_of_medians(mine_s, others_s)
        low, high = ratio_interval(mine_s, others_s)
        slower, faster = (mine_s, others_s) if ratio >= 1 else (others_s, mine_s)
        p = permutation_p(slower, faster, permutations=permutations)
        cells += [f"{ratio:.3f}", f"{low:.3f} - {high:.3f}", f"{p:.2g}"]
    try:
        cells.append(f"{runs_test(mine_s).p:.2g}")
    except ValueError:  # all alike
        cells.append("-")
    return cells


def tables(
    records: Sequence[Record], against: str, *, permutations: int = PERMUTATIONS
) -> list[str]:
    """Write one table for each situation that has the algorithm to compare with."""
    texts = []
    for (ranks, size_bytes, mode, max_delay_s), rows in groupby(records, key=situation):
        group = list(rows)
        others = [record for record in group if record["algorithm"] == against]
        if not others:
            continue
        about = f"{ranks} ranks, {bytes_text(size_bytes)}, {mode} by at most {max_delay_s:g} s"
        counted = f"{len(others[0]['samples'])} iterations, against {against}"
        cells = [row(r, others[0], records, permutations=permutations) for r in group]
        texts.append(f"{about}, {counted}\n{text_table(HEADINGS, cells, left=(0,))}")
    return texts


def main() -> None:
    """Print the tables of a file of records."""
    parser = command_line("significance", __doc__)
    parser.add_argument("records", type=Path, help="what benchmarks.arrivals wrote: JSON lines")
    parser.add_argument("--against", default="ring", help="algorithm to compare with")
    options = parser.parse_args()
    texts = tables(read_records(options.records), options.against)
    if not texts:
        parser.error(f"{options.records}: has no records of {options.against}")
    print("\n\n".join(texts))


if __name__ == "__main__":
    main()
