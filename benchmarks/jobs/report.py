"""How far `auto` is from the best fixed policy: shares of the jobs, worst cells, a picture."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .cells import Cell

_NEAR = (1.0, 1.01, 1.02, 1.05, 1.1)
_WORST = 10


def summary(records: list[dict[str, Any]]) -> None:
    """Print the distribution and the worst cells."""
    console = Console(width=120)
    ratios = sorted(record["ratio"] for record in records)
    table = Table(title=f"auto over the best of the others: {len(records)} jobs drawn at random")
    table.add_column("at most", justify="right")
    table.add_column("share of the jobs", justify="right")
    for near in _NEAR:
        table.add_row(f"{near:g}", f"{sum(r <= near for r in ratios) / len(ratios):.1%}")
    table.add_row(f"{ratios[-1]:g}", "all")
    console.print(table)
    worst = Table(title="the worst")
    for heading in (
        "ratio",
        "P",
        "buckets",
        "ms",
        "MB/s",
        "pattern",
        "late/ring",
        "jitter",
        "best",
    ):
        worst.add_column(heading, justify="right")
    worst.add_column("auto ran", overflow="fold")
    for record in sorted(records, key=lambda record: -record["ratio"])[:_WORST]:
        worst.add_row(
            f"{record['ratio']:.3f}",
            str(record["ranks"]),
            str(record["buckets"]),
            f"{record['latency_s'] * 1e3:g}",
            f"{record['bytes_per_s'] / 1e6:g}",
            record["pattern"],
            f"{record['delay_s'] / of(record).ring_s:.1f}",
            f"{record['jitter']:g}",
            record["best"],
            ", ".join(f"{name} {times}" for name, times in record["ran"].items()),
        )
    console.print(worst)


def of(record: dict[str, Any]) -> Cell:
    """Return the cell of a record."""
    return Cell(**{field.name: record[field.name] for field in fields(Cell)})


def picture(records: list[dict[str, Any]], file: Path, how: str = "simulated") -> None:
    """Draw the distribution, of `auto` and of each fixed policy."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    best_s = [min(record["paces_s"].values()) for record in records]
    shares = [(n + 1) / len(records) for n in range(len(records))]
    for name in records[0]["paces_s"]:
        ratios = sorted(r["paces_s"][name] / s for r, s in zip(records, best_s, strict=True))
        axes.plot(ratios, shares, label=name, linewidth=1.2)
    axes.plot(sorted(r["ratio"] for r in records), shares, label="auto", color="black", linewidth=2)
    axes.axvline(1.02, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xlim(min(0.97, min(r["ratio"] for r in records) - 0.01), 1.5)
    axes.set_xlabel("iteration time over that of the best but auto")
    axes.set_ylabel("share of the jobs")
    axes.set_title(f"{len(records)} {how} jobs, drawn at random")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(file, dpi=130)
