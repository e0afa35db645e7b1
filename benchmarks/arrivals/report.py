"""The arrivals benchmark for a reader: a table per mode, pictures like the paper's Figs. 10 to 12.

The paper's figure, average elapsed, holds mostly the wait for the last rank, which no algorithm can
shorten. So the pictures also show it without that wait: the mean over the ranks of
finish - last arrival, here `beyond`. The late rank's own part of it can be next to nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.allreduce.report import LEGEND, algorithms_of, describe_ranks, describe_size
from benchmarks.lab.plan import Record
from patallreduce.pictures import figures

Situation = tuple[int, int, str, float]  # ranks, bytes, mode, largest delay
AUTO = "auto"
FIGURES = {
    "average_elapsed": "average elapsed",
    "beyond": "average elapsed beyond the wait for the last rank",
    "after": "after the last arrival, until all are done",
}
# What a picture has along its x axis: name, label, of a record, logarithmic.
AXES: dict[str, tuple[str, Callable[[Record], float], bool]] = {
    "delay": ("largest delay, seconds", lambda r: float(r["max_delay_s"]), False),
    "ranks": ("ranks", lambda r: float(r["ranks"]), False),
    "bytes": ("message, bytes", lambda r: float(r["bytes"]), True),
}


def figure_s(record: Record, figure: str) -> list[float]:
    """One of `FIGURES`, of every sample of a record."""
    return [_of_sample(sample, figure) for sample in record["samples"]]


def _of_sample(sample: dict[str, list[float]], figure: str) -> float:
    arrivals_s, finishes_s = sample["arrivals_s"], sample["finishes_s"]
    if figure == "average_elapsed":
        return statistics.fmean(finishes_s) - statistics.fmean(arrivals_s)
    latest_s = max(finishes_s) if figure == "after" else statistics.fmean(finishes_s)
    return latest_s - max(arrivals_s)


def compared(records: list[Record], figure: str) -> tuple[str, float] | None:
    """Name the best fixed algorithm of a situation, and say auto's time as a part of its.

    The best has the least median. The ratio is the median over the iterations, each of which had
    the same delays for both. None without auto or without others.
    """
    autos = [record for record in records if record["algorithm"] == AUTO]
    fixed = [record for record in records if record["algorithm"] != AUTO]
    if not autos or not fixed:
        return None
    best = min(fixed, key=lambda record: statistics.median(figure_s(record, figure)))
    pairs = zip(figure_s(autos[0], figure), figure_s(best, figure), strict=True)
    return best["algorithm"], statistics.median(auto_s / best_s for auto_s, best_s in pairs)


def situation(record: Record) -> Situation:
    """Everything but the algorithm."""
    return record["ranks"], record["bytes"], record["mode"], record["max_delay_s"]


def print_tables(records: list[Record]) -> None:
    """Print a table per number of ranks, size and mode; a row per delay."""
    console = Console(width=100, highlight=False)
    for (_, _, mode), rows in groupby(records, key=lambda record: situation(record)[:3]):
        group = list(rows)
        first = group[0]
        yardstick = f"; M*beta {first['Mbeta_s'] * 1e3:.1f} ms" if first["Mbeta_s"] else ""
        console.print(
            f"\n{describe_ranks(first)}, {describe_size(first['bytes'])}, {mode}{yardstick}"
        )
        for figure in ("average_elapsed", "after"):
            console.print(_table(group, figure))
        _print_plans(console, group)
    console.print(LEGEND)
    console.print("auto / best: median over iterations with the same delays for both.")


def _table(records: list[Record], figure: str) -> Table:
    names = algorithms_of(records)
    table = Table(title=f"{FIGURES[figure]}, ms", title_justify="left")
    table.add_column("delay s", justify="right")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("best fixed")
    table.add_column("auto / best", justify="right")
    for (_, _, _, max_delay_s), rows in groupby(records, key=situation):
        inside = list(rows)
        medians = {r["algorithm"]: statistics.median(figure_s(r, figure)) for r in inside}
        cells = [f"{medians[name] * 1e3:.1f}" for name in names]
        against = compared(inside, figure)
        table.add_row(
            f"{max_delay_s:g}",
            *cells,
            *(["", ""] if against is None else [against[0], f"{against[1]:.3f}"]),
        )
    return table


def _print_plans(console: Console, records: list[Record]) -> None:
    for record in records:
        counts: dict[str, int] = {}
        for plan in record.get("plans", []):
            name = f"{plan['algorithm']} {plan['segments']}" if plan["planned"] else "no plan"
            counts[name] = counts.get(name, 0) + 1
        if counts:
            what = ", ".join(f"{name} ({count})" for name, count in counts.items())
            console.print(f"auto at {record['max_delay_s']:g} s: {what}")


def draw(records: list[Record], folder: Path) -> list[Path]:
    """Draw one picture per parameter with several values: delay, ranks, bytes; return the paths.

    The other parameters keep one value: the largest delay, or the first number of ranks or bytes.
    """
    kept = {
        "delay": max(record["max_delay_s"] for record in records),
        "ranks": records[0]["ranks"],
        "bytes": records[0]["bytes"],
    }
    paths = []
    for name, (label, x_of, logarithmic) in AXES.items():
        others = [other for other in AXES if other != name]
        rows = [r for r in records if all(AXES[o][1](r) == kept[o] for o in others)]
        if len({x_of(record) for record in rows}) < 2:
            continue
        modes = list(dict.fromkeys(record["mode"] for record in rows))
        picture = figures.figure(5 * len(FIGURES), 4 * len(modes))
        panels = picture.subplots(len(modes), len(FIGURES), squeeze=False)
        for of_mode, mode in zip(panels, modes, strict=True):
            for axes, what in zip(of_mode, FIGURES, strict=True):
                _draw_lines(axes, [r for r in rows if r["mode"] == mode], what, x_of)
                axes.set_title(mode)
                axes.set_xlabel(label)
                axes.set_ylabel(f"{FIGURES[what]}, ms", fontsize="small")
                if logarithmic:
                    axes.set_xscale("log", base=2)
        panels[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
        picture.suptitle(_fixed(rows[0], name))
        paths.append(folder / f"arrivals_{name}.png")
        figures.save(picture, paths[-1])
    return paths


def _draw_lines(
    axes: Any, records: list[Record], figure: str, x_of: Callable[[Record], float]
) -> None:
    """Medians; bars from the first to the third quartile."""
    for index, name in enumerate(algorithms_of(records)):
        mine = sorted((r for r in records if r["algorithm"] == name), key=x_of)
        samples_ms = [[s * 1e3 for s in figure_s(record, figure)] for record in mine]
        middle = [statistics.median(values) for values in samples_ms]
        low, high = zip(*map(_quartiles, samples_ms), strict=True)
        bars = [  # of equal values a quartile may be rounded past the median
            [max(m - s, 0.0) for m, s in zip(middle, low, strict=True)],
            [max(s - m, 0.0) for m, s in zip(middle, high, strict=True)],
        ]
        style = {"color": "black", "linewidth": 2.2} if name == AUTO else {"color": f"C{index}"}
        x = [x_of(record) for record in mine]
        axes.errorbar(x, middle, yerr=bars, marker="o", capsize=3, label=name, **style)
    if figure != "average_elapsed" and all(record["Mbeta_s"] for record in records):
        once = {x_of(record): record["Mbeta_s"] * 1e3 for record in records}
        axes.plot(list(once), list(once.values()), "--", color="grey", label="M*beta")
    axes.grid(alpha=0.3)


def _quartiles(values: list[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def _fixed(first: Record, name: str) -> str:
    parts = {
        "ranks": describe_ranks(first),
        "bytes": describe_size(first["bytes"]),
        "delay": f"largest delay {first['max_delay_s']:g} s",
    }
    return ", ".join(text for part, text in parts.items() if part != name)
