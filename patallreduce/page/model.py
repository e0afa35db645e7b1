"""One model's iterations as a page holds them: matrices of times, texts and timelines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from patallreduce.page import findings, moments
from patallreduce.page.microseconds import packed, packed_times
from patallreduce.records.iterations import Iteration
from patallreduce.records.paces import has_plan
from patallreduce.records.stragglers import straggler_report


def model_data(iterations: Sequence[Iteration], *, room: int = moments.ROOM) -> dict[str, Any]:
    """Return what the page shows of one model, as JSON can hold it.

    Matrices are by iteration, then by rank; what is unknown is `microseconds.UNKNOWN`.

    Args:
        iterations: Of one model, in order, of the same ranks; at least one.
        room: Times that its timelines may hold.

    Raises:
        ValueError: They are of several numbers of ranks or of none, or not in order.
    """
    if not iterations[0].ranks:
        raise ValueError("expected iterations of one rank or more, got none")
    for before, iteration in itertools.pairwise(iterations):
        if iteration.iteration <= before.iteration:
            raise ValueError(
                f"expected iterations in order, got {iteration.iteration} after {before.iteration}"
            )
    report = straggler_report(iterations)
    return {
        "model": iterations[0].model,
        "ranks": iterations[0].ranks,
        "sentences": findings.sentences(report),
        "table": str(report).partition("\n\n")[2],
        "won": findings.won(report, iterations),
        "shares": [asdict(share) for share in findings.shares(iterations)],
        "iterations": packed(i.iteration for i in iterations),
        "planned": packed(int(has_plan(i)) for i in iterations),
        "pace": packed_times(paces_s(iterations)),
        "lateness": packed_times(_flat(i.lateness_s for i in iterations)),
        "error": packed_times(_flat(i.prediction_error_s for i in iterations)),
        "timelines": moments.timelines(iterations, moments.kept(iterations, room)),
    }


def paces_s(iterations: Sequence[Iteration]) -> list[float]:
    """From the last finish of the iteration before to that of each; NaN where one is not known."""
    ends_s = [math.nan if math.isnan(sum(i.finish_s)) else max(i.finish_s) for i in iterations]
    follows = [b.iteration == a.iteration + 1 for a, b in itertools.pairwise(iterations)]
    spent_s = [end_s - before_s for before_s, end_s in itertools.pairwise(ends_s)]
    return [math.nan] + [s if f else math.nan for s, f in zip(spent_s, follows, strict=True)]


def _flat(rows: Iterator[tuple[float, ...]]) -> Iterator[float]:
    return itertools.chain.from_iterable(rows)
