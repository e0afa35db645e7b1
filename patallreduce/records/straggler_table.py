"""The straggler report as text.

What counts comes first: who is late, in one sentence per straggler, then every rank's figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from patallreduce.text.table import text_table

if TYPE_CHECKING:
    from patallreduce.records.stragglers import RankReport, Report

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
others held: mean elapsed time of the others where it was last"""


def render(report: Report) -> str:
    """Return the report as text for a terminal, without colours and without a final line end."""
    rows = [_row(rank) for rank in report.ranks]
    table = text_table(_HEADINGS, rows)
    return "\n".join([*_summary(report), "", table, "", _EXPLANATION])


def _summary(report: Report) -> Iterator[str]:
    left_out = f" ({report.unknown} more not fully known)" if report.unknown else ""
    yield (
        f"{report.iterations} iterations{left_out} of {len(report.ranks)} ranks, "
        f"{_ms(report.computation_s)} ms of computation; "
        f"late means by more than {_ms(report.threshold_s)} ms"
    )
    stragglers = report.identify_stragglers()
    for rank in stragglers:
        found = report.ranks[rank]
        if found.late_since is None:
            yield f"rank {rank} was late by {_ms(found.median_s)} ms, but is not any more"
        else:
            late_ms = _ms(found.late_s)
            yield f"rank {rank} is late by {late_ms} ms since iteration {found.late_since}"
    if not stragglers:
        yield "no rank is late again and again"


def _row(rank: RankReport) -> list[str]:
    return [
        str(rank.rank),
        _ms(rank.median_s),
        _ms(rank.mean_s),
        _ms(rank.max_s),
        _percent(rank.last_share),
        "-" if rank.late_since is None else str(rank.late_since),
        _percent(rank.predicted_share),
        _ms(rank.prediction_error_s),
        _ms(rank.cost_s),
    ]


def _ms(time_s: float) -> str:
    # + 0.0: a lateness of -0.04 ms is not "-0.0".
    return "-" if math.isnan(time_s) else f"{round(time_s * 1e3, 1) + 0.0:.1f}"


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.0%}".rstrip("%")
