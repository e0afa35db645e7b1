"""Table and picture of the training benchmark."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.lab.plan import Record
from patallreduce.pictures.figures import figure, save


def print_table(records: list[Record]) -> None:
    """Print one row per pattern, delay and hook."""
    table = Table(title="Training with one late rank: medians, milliseconds")
    for column in (
        "late rank",
        "late by",
        "hook",
        "median",
        "mean",
        "bound",
        "ratio",
        "after",
        "own",
    ):
        table.add_column(column, justify="left" if column in ("late rank", "hook") else "right")
    for record in records:
        table.add_row(
            record["pattern"],
            f"{record['delay_s'] * 1e3:g}",
            record["hook"],
            f"{record['iteration_s'] * 1e3:.1f}",
            f"{record['mean_iteration_s'] * 1e3:.1f}",
            f"{record['bound_s'] * 1e3:.1f}",
            f"{record['iteration_s'] / record['bound_s']:.3f}",
            f"{record['after_s'] * 1e3:.1f}",
            f"{record['late_elapsed_s'] * 1e3:.1f}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(
        "median, mean: iteration time; ratio: median / bound\n"
        "bound: max(late rank's computation, the others' + 2 M*beta); after: last arrival to last "
        "result;\nown: the late rank's all-reduce. "
        f"M*beta {records[0]['Mbeta_s'] * 1e3:.1f} ms, {records[0]['ranks']} ranks, "
        f"{records[0]['bytes']} bytes, {records[0]['network']}"
    )


def draw(records: list[Record], path: Path) -> None:
    """Draw iteration time over delay, a panel per pattern."""
    patterns = list(dict.fromkeys(record["pattern"] for record in records))
    picture = figure(5.5 * len(patterns), 4.2)
    panels = picture.subplots(1, len(patterns), squeeze=False, sharey=True)
    for axes, pattern in zip(panels[0], patterns, strict=True):
        mine = [record for record in records if record["pattern"] == pattern]
        for hook in dict.fromkeys(record["hook"] for record in mine):
            rows = [record for record in mine if record["hook"] == hook]
            name = "plain DDP (Gloo)" if hook == "gloo" else f"patallreduce, {hook}"
            axes.plot(
                [r["delay_s"] for r in rows], [r["iteration_s"] for r in rows], "o-", label=name
            )
            if hook == "auto":
                axes.plot(
                    [r["delay_s"] for r in rows],
                    [r["bound_s"] for r in rows],
                    "k--",
                    label="bound",
                )
        axes.set_title(f"late rank: {pattern}")
        axes.set_xlabel("late by, seconds")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("iteration, seconds (median)")
    panels[0][0].legend()
    save(picture, path)
