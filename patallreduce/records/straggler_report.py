"""What the straggler report says, and as text.

What counts comes first: who is late, in one sentence per straggler, then every rank's figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from patallreduce.records.findings import Finding
from patallreduce.records.paces import Paces
from patallreduce.records.ports import NarrowPort
from patallreduce.text.table import text_table
from patallreduce.text.units import tenths_text

# 80 columns together.
_HEADINGS = (
    "rank",
    "median\nlate ms",
    "mean\nlate ms",
    "max\nlate ms",
    "last\n%",
    "late since\niteration",
    "foreseen\n%",
    "error\nms",
    "others\nheld ms",
)
_EXPLANATION = """\
late: arrival after the median rank's, before the all-reduce
last: share of the iterations in which it arrived last of all
foreseen: share of those in which the prediction named it
error: mean of the absolute errors of its predicted arrivals
others held: mean elapsed time of the others where it was last
with a plan, without: an iteration less what its last rank computed, median"""


@dataclass(frozen=True)
class RankReport:
    """One rank over all iterations; times in seconds, NaN where there is nothing to measure.

    Args:
        rank: Which.
        mean_s: Mean lateness.
        median_s: Median lateness.
        max_s: Largest lateness.
        last_share: Share of the iterations in which it arrived last.
        late_since: Number of the iteration since when it is late, and still is at the end of the
            records; None if it is not late then.
        late_s: Median lateness since then; NaN if `late_since` is None.
        predicted_share: Of the iterations in which it was last and there was a prediction, the
            share in which the prediction named it.
        prediction_error_s: Mean absolute error of its predicted arrivals.
        cost_s: Average elapsed time of the other ranks in the iterations in which it was last:
            what they waited, the all-reduce included.
    """

    rank: int
    mean_s: float
    median_s: float
    max_s: float
    last_share: float
    late_since: int | None
    late_s: float
    predicted_share: float
    prediction_error_s: float
    cost_s: float


@dataclass(frozen=True)
class Report:
    """Every rank's lateness; `print(report)` shows it as a table.

    Args:
        ranks: In rank order.
        iterations: How many were measured.
        unknown: How many more were left out because an arrival is not known.
        computation_s: Median over the iterations of the median rank's computation.
        threshold_s: Above which a rank was counted as late.
        paces: What plans win.
        findings: Why ranks are late that are not so by chance, the latest rank first, of each its
            causes, the largest first.
        ports: Whose port is narrower than the others', the narrowest first.
    """

    ranks: tuple[RankReport, ...]
    iterations: int
    unknown: int
    computation_s: float
    threshold_s: float
    paces: Paces
    findings: tuple[Finding, ...]
    ports: tuple[NarrowPort, ...] = ()

    def identify_stragglers(
        self, threshold_s: float | None = None, *, ratio: float | None = None
    ) -> list[int]:
        """Return the ranks that are late: typically, or in the phase that lasts to the end.

        Args:
            threshold_s: Median lateness above which a rank is a straggler. Default: the report's.
            ratio: The same as a part of the median rank's computation; give one of the two.

        Returns:
            Ranks, the latest first.

        Raises:
            ValueError: Both are given, or a value is not a number >= 0.
        """
        threshold_s = threshold_of(self.computation_s, threshold_s, ratio, self.threshold_s)
        # max() keeps its first argument where the second is NaN, which compares as false.
        late_s = {r.rank: max(0.0, r.median_s, r.late_s) for r in self.ranks}
        late = [rank for rank in late_s if late_s[rank] > threshold_s]
        return sorted(late, key=lambda rank: (-late_s[rank], rank))

    def __str__(self) -> str:
        return _render(self)


def threshold_of(
    computation_s: float, threshold_s: float | None, ratio: float | None, default_s: float
) -> float:
    """Above which a rank is late: the one that is given, in seconds, or the default."""
    if threshold_s is not None and ratio is not None:
        raise ValueError(f"expected threshold_s or ratio, got both: {threshold_s} and {ratio}")
    for name, value in [("threshold_s", threshold_s), ("ratio", ratio)]:
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name}: expected a number >= 0, got {value}")
    if threshold_s is not None:
        return threshold_s
    return default_s if ratio is None else of_computation_s(computation_s, ratio)


def of_computation_s(computation_s: float, ratio: float) -> float:
    """A part of the computation, seconds."""
    # Where no start is known there is nothing to compare with: whoever is behind is late.
    return 0.0 if math.isnan(computation_s) else ratio * computation_s


def _render(report: Report) -> str:
    """Return the report as text for a terminal, without colours and without a final line end."""
    rows = [_row(rank) for rank in report.ranks]
    table = text_table(_HEADINGS, rows)
    return "\n".join([*_summary(report), "", table, "", _EXPLANATION])


def _summary(report: Report) -> Iterator[str]:
    left_out = f" ({report.unknown} more not fully known)" if report.unknown else ""
    yield (
        f"{report.iterations} iterations{left_out} of {len(report.ranks)} ranks, "
        f"{tenths_text(report.computation_s)} ms of computation; "
        f"late means by more than {tenths_text(report.threshold_s)} ms"
    )
    stragglers = report.identify_stragglers()
    for rank in stragglers:
        found = report.ranks[rank]
        if sentences := [str(finding) for finding in report.findings if finding.rank == rank]:
            yield from sentences
            continue
        if found.late_since is None:
            yield f"rank {rank} was late by {tenths_text(found.median_s)} ms, but is not any more"
        else:
            late_ms = tenths_text(found.late_s)
            yield f"rank {rank} is late by {late_ms} ms since iteration {found.late_since}"
    if not stragglers:
        yield "no rank is late again and again"
    yield from map(str, report.ports)
    yield _won(report.paces)


def _won(paces: Paces) -> str:
    if math.isnan(paces.won_s):
        return "what plans win is not known: no iterations near each other with a plan and without"
    won = "win" if paces.won_s >= 0 else "cost"
    return (
        f"plans {won} {tenths_text(abs(paces.won_s))} ms per iteration: "
        f"{tenths_text(paces.planned_s)} ms with one ({paces.planned} measured), "
        f"{tenths_text(paces.plain_s)} without ({paces.plain})"
    )


def _row(rank: RankReport) -> list[str]:
    return [
        str(rank.rank),
        tenths_text(rank.median_s),
        tenths_text(rank.mean_s),
        tenths_text(rank.max_s),
        _percent(rank.last_share),
        "-" if rank.late_since is None else str(rank.late_since),
        _percent(rank.predicted_share),
        tenths_text(rank.prediction_error_s),
        tenths_text(rank.cost_s),
    ]


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.0%}".rstrip("%")
