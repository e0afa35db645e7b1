"""The all-reduce benchmark for a reader: one table per situation, one picture for all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lab.plan import Record
from patallreduce.pictures.figures import figure, save

LEGEND = (
    "Medians. elapsed: from a rank's own arrival until it has the result. after: from the last\n"
    "arrival until every rank has the result. busbw: what each link must carry, 2(P-1)/P of the\n"
    "message, per time elapsed. M*beta: one point-to-point transfer of the message, same run."
)


def print_tables(records: list[Record]) -> None:
    """Print one table per number of ranks, size and arrival pattern; a row per algorithm."""
    console = Console(width=100, highlight=False)
    for _, rows in groupby(records, key=lambda r: (r["ranks"], r["bytes"], r["arrivals_s"])):
        situation = list(rows)
        console.print(f"\n{_title(situation[0])}")
        console.print(_table(situation))
    console.print(LEGEND)


def _title(first: Record) -> str:
    title = f"{describe_ranks(first)}, {describe_size(first['bytes'])}, {_late(first)}"
    return title + (f"; M*beta {_time(first['Mbeta_s'])}" if first["Mbeta_s"] else "")


def _table(rows: list[Record]) -> Table:
    first = rows[0]
    table = Table()
    table.add_column("algorithm")
    table.add_column("transport")
    for heading, _ in _columns(first):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [cell(row) for _, cell in _columns(first)]
        table.add_row(row["algorithm"], row["transport"], *cells)
    return table


def _columns(first: Record) -> list[tuple[str, Callable[[Record], str]]]:
    """Headings and how to fill them; what makes no sense in the situation is left out."""
    columns: list[tuple[str, Callable[[Record], str]]] = [
        ("average elapsed", lambda r: _time(r["average_elapsed_s"]))
    ]
    if first["late_rank"] is not None:
        columns.append(("late rank's own", lambda r: _time(r["late_elapsed_s"])))
    columns.append(("after", lambda r: _time(r["after_s"])))
    if first["Mbeta_s"]:
        columns.append(("after / M*beta", lambda r: f"{r['after_s'] / r['Mbeta_s']:.2f}"))
    if first["late_rank"] is None:
        columns.append(("busbw MB/s", lambda r: f"{r['busbw_bytes_s'] / 1e6:.1f}"))
    return columns


def draw(records: list[Record], path: Path) -> None:
    """Draw time over size if there are several sizes, else bars of `after` per pattern."""
    several_sizes = len({record["bytes"] for record in records}) > 1
    situations = sorted({_situation(record, several_sizes) for record in records})
    picture = figure(9, 4 * len(situations))
    rows = picture.subplots(len(situations), 1, squeeze=False)
    for axes, situation in zip(rows[:, 0], situations, strict=True):
        inside = [r for r in records if _situation(r, several_sizes) == situation]
        axes.set_title(situation)
        (_draw_lines if several_sizes else _draw_bars)(axes, inside)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))  # beside, never over the data
    save(picture, path)


def _situation(record: Record, several_sizes: bool) -> str:
    what = _late(record) if several_sizes else describe_size(record["bytes"])
    return f"{describe_ranks(record)}, {what}"


def describe_ranks(record: Record) -> str:
    """Say how many, and on what network."""
    shared = "sharing one machine" if record["network"] == "shm" else f"on {record['network']}"
    return f"{record['ranks']} ranks {shared}"


def algorithms_of(records: list[Record]) -> list[str]:
    """Name the algorithms, in order of appearance."""
    return list(dict.fromkeys(record["algorithm"] for record in records))


def _draw_lines(axes: Any, records: list[Record]) -> None:
    for name in algorithms_of(records):
        mine = sorted((r for r in records if r["algorithm"] == name), key=lambda r: r["bytes"])
        sizes = [r["bytes"] for r in mine]
        axes.plot(sizes, [r["after_s"] * 1e3 for r in mine], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("message, bytes")
    axes.set_ylabel("from the last arrival to the last result, ms")


def _draw_bars(axes: Any, records: list[Record]) -> None:
    patterns = list(dict.fromkeys(_late(record) for record in records))
    names = algorithms_of(records)
    width = 0.8 / (2 * len(names))
    for i, name in enumerate(names):
        mine = {_late(r): r for r in records if r["algorithm"] == name}
        for j, (measure, look) in enumerate(
            {"after_s": {"alpha": 1.0}, "late_elapsed_s": {"alpha": 0.45}}.items()
        ):
            places = [k - 0.4 + width * (2 * i + j + 0.5) for k in range(len(patterns))]
            heights = [mine[p][measure] * 1e3 for p in patterns]
            label = f"{name}: " + ("after" if j == 0 else "last rank's own")
            axes.bar(places, heights, width, color=f"C{i}", label=label, **look)
    if records[0]["Mbeta_s"]:
        height_ms = records[0]["Mbeta_s"] * 1e3
        axes.axhline(height_ms, color="black", linestyle="--", label="M*beta, point to point")
    axes.set_xticks(range(len(patterns)), patterns)
    axes.set_ylabel("ms after the last arrival")


def _late(record: Record) -> str:
    late = [(rank, delay) for rank, delay in enumerate(record["arrivals_s"]) if delay > 0]
    return ", ".join(f"rank {rank} {delay:g} s late" for rank, delay in late) or "all together"


def describe_size(size_bytes: int) -> str:
    """Write bytes in the largest unit that divides them."""
    for unit, factor in {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}.items():
        if size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} bytes"


def _time(time_s: float) -> str:
    return f"{time_s * 1e3:.1f} ms" if time_s >= 1e-3 else f"{time_s * 1e6:.1f} us"
