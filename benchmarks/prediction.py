"""How well is the last rank named, and how wrong are the arrivals?  Prints one JSON line per case.

    python -m benchmarks.prediction --results benchmarks/results/prediction.jsonl

Every predictor on every trace, at every moment of an iteration (its moments: traces/replay.py).
Each stage of a trace is a job of its own that begins with nothing learned.

named: share of all iterations, the first included, in which the predicted last rank was the last.
mean absolute error: over ranks and the iterations from the third on, when all predictors speak.
order error: the same without what all ranks have in common, which does not change their order;
root of the mean square, because the few late ranks are what matters.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks import traces
from benchmarks.lab.plan import Record
from benchmarks.traces.command import run_on_traces
from benchmarks.traces.replay import COMBINED, FURTHEST, MOMENTS, Moment, Replayed, replay
from patallreduce import _core
from patallreduce.pictures.figures import figure, save

LEARNING = 2  # iterations after which all predictors speak


def last_named(replayed: Replayed, predictor: str) -> bool:
    """Tell whether `predictor` named the rank that came last; a tie names nobody."""
    said_s = replayed.said_s.get(predictor)
    if said_s is None:
        return False
    latest_s = max(said_s)
    return said_s.count(latest_s) == 1 and said_s.index(latest_s) == replayed.iteration.last_rank


def absolute_error_s(replayed: Replayed, predictor: str) -> float:
    """Mean over the ranks."""
    pairs = zip(replayed.said_s[predictor], replayed.iteration.arrivals_s, strict=True)
    return statistics.fmean(abs(said_s - arrival_s) for said_s, arrival_s in pairs)


def square_order_error(replayed: Replayed, predictor: str) -> float:
    """Mean square over the ranks, the error of their mean taken out."""
    pairs = zip(replayed.said_s[predictor], replayed.iteration.arrivals_s, strict=True)
    return statistics.pvariance([said_s - arrival_s for said_s, arrival_s in pairs])


def measure(name: str, stages: dict[int, list[traces.Iteration]], moment: Moment) -> list[Record]:
    """Replay all stages of a trace at one moment; a record per predictor that speaks there."""
    by_stage = [list(replay(iterations, moment)) for iterations in stages.values()]
    every = [replayed for stage in by_stage for replayed in stage]
    learned = [replayed for stage in by_stage for replayed in stage[LEARNING:]]
    records = []
    for predictor in [*_core.component_names(), FURTHEST, COMBINED]:
        heard = [r for r in learned if predictor in r.said_s]
        if len(heard) < len(learned):
            continue
        record: Record = {
            "trace": name,
            "ranks": len(every[0].iteration.arrivals_s),
            "iterations": len(every),
            "median_spread_s": round(statistics.median(r.iteration.spread_s for r in every), 6),
            "moment": moment,
            "predictor": predictor,
            "named": sum(last_named(r, predictor) for r in every),
            "named_after_first": sum(last_named(r, predictor) for s in by_stage for r in s[1:]),
            "after_first": len(every) - len(by_stage),
        }
        if predictor != FURTHEST:
            record["mean_absolute_error_s"] = round(
                statistics.fmean(absolute_error_s(r, predictor) for r in heard), 6
            )
            record["order_error_s"] = round(
                statistics.fmean(square_order_error(r, predictor) for r in heard) ** 0.5, 6
            )
        records.append(record)
    return records


def measure_moments(name: str, stages: dict[int, list[traces.Iteration]]) -> list[Record]:
    """Replay a trace at every moment."""
    return [record for moment in MOMENTS for record in measure(name, stages, moment)]


def print_tables(records: list[Record]) -> None:
    """Print one table per trace: a row per predictor, a column per moment."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=125, highlight=False)
    for name in dict.fromkeys(record["trace"] for record in records):
        mine = [record for record in records if record["trace"] == name]
        table = Table()
        table.add_column("predictor")
        for moment in MOMENTS:
            heading = str(moment) if moment == "decision" else f"progress {moment}"
            table.add_column(heading, justify="right")
        for predictor in dict.fromkeys(record["predictor"] for record in mine):
            cells = {r["moment"]: _cell(r) for r in mine if r["predictor"] == predictor}
            table.add_row(predictor, *(cells.get(moment, "") for moment in MOMENTS))
        first = mine[0]
        console.print(
            f"\n{name}: {first['ranks']} ranks, {first['iterations']} iterations, median spread "
            f"{first['median_spread_s'] * 1e3:.1f} ms"
        )
        console.print(table)
    console.print("Last rank named, mean absolute error in ms, order error in ms.")


def _cell(record: Record) -> str:
    named = f"{100 * record['named'] / record['iterations']:.0f} %"
    if "order_error_s" not in record:
        return f"{named}            "
    error_ms, order_ms = record["mean_absolute_error_s"] * 1e3, record["order_error_s"] * 1e3
    return f"{named} {_figure(error_ms)} {_figure(order_ms)}"


def _figure(number: float) -> str:
    return f"{number:5.1f}" if number < 100 else f"{number:5.0f}"


def draw(records: list[Record], path: Path) -> None:
    """Draw who is named and how wrong the arrivals are over the progress seen, a row per trace."""
    names = list(dict.fromkeys(record["trace"] for record in records))
    picture = figure(11, 3.2 * len(names))
    rows = picture.subplots(len(names), 2, squeeze=False)
    for (left, right), name in zip(rows, names, strict=True):
        mine = [record for record in records if record["trace"] == name]
        for predictor in dict.fromkeys(record["predictor"] for record in mine):
            of = [record for record in mine if record["predictor"] == predictor]
            look: dict[str, Any] = {"marker": "o", "markersize": 3, "label": predictor}
            if predictor == COMBINED:
                look |= {"color": "black", "linewidth": 2.5}
            elif predictor == FURTHEST:
                look |= {"color": "grey", "linestyle": ":"}
            moments = [MOMENTS.index(record["moment"]) for record in of]
            left.plot(moments, [100 * r["named"] / r["iterations"] for r in of], **look)
            if predictor != FURTHEST:
                right.plot(moments, [r["mean_absolute_error_s"] * 1e3 for r in of], **look)
        left.set_title(f"{name}, {mine[0]['ranks']} ranks: last rank named, %")
        left.set_ylim(0, 105)
        right.set_title("mean absolute error, ms")
        right.set_yscale("log")
        for axes in (left, right):
            axes.set_xticks(range(len(MOMENTS)), [str(moment) for moment in MOMENTS])
            axes.set_xlabel("progress seen")
        right.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    save(picture, path)


if __name__ == "__main__":
    run_on_traces("prediction", __doc__, measure_moments, print_tables, draw)
