"""Simulated beside measured, for a reader: rich tables and a scatter plot."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from matplotlib import colormaps
from rich.console import Console
from rich.table import Table

from benchmarks.allreduce.report import describe_size
from benchmarks.lab.plan import Record
from patallreduce.pictures.figures import figure, save


def print_tables(cells: list[Record], summary: Record) -> None:
    """Print the network, every cell, and the geometric mean errors."""
    console = Console(width=120, highlight=False)
    for message_bytes, network in summary["fitted"].items():
        console.print(_network_text(int(message_bytes), network))
    for (message_bytes, pattern), of in groupby(cells, key=lambda c: (c["bytes"], c["pattern"])):
        table = Table(
            title=f"{describe_size(message_bytes)}, {pattern}: average elapsed",
            title_justify="left",
        )
        for heading in ("algorithm", "segments", "measured ms", "simulated ms", "error"):
            table.add_column(heading, justify="left" if heading == "algorithm" else "right")
        for cell in of:
            table.add_row(
                cell["algorithm"],
                str(cell["segments"]),
                f"{cell['measured_s'] * 1e3:.2f}",
                f"{cell['simulated_s'] * 1e3:.2f}",
                f"{cell['error']:+.1%}",
            )
        console.print(table)
    for by in ("algorithm", "bytes", "pattern"):
        errors = summary[f"error_by_{by}"]
        texts = [
            f"{describe_size(int(name)) if by == 'bytes' else name} {error:.1%}"
            for name, error in errors.items()
        ]
        console.print(f"by {by}: " + ", ".join(texts))
    worst = summary["worst"]
    console.print(
        f"{summary['cells']} cells: geometric mean error {summary['error']:.1%}; worst "
        f"{worst['algorithm']}, {describe_size(worst['bytes'])}, {worst['pattern']}: "
        f"{worst['error']:+.1%}.\n"
        f"With the link of pat.calibrate alone: {summary['with_plain_link']['error']:.1%}."
    )


def _network_text(message_bytes: int, network: Record) -> str:
    link = network["links"]
    return (
        f"Around {describe_size(message_bytes)}: {1e-6 / link['gap_per_byte_s']:.2f} MB/s, latency "
        f"{link['latency_s'] * 1e6:.0f} us, overhead {link['overhead_s'] * 1e6:.0f} us, a call "
        f"{network['call_s'] * 1e6:.0f} us, burst {network['burst_bytes'] / 1024:.1f} KiB, sums "
        f"{link['reduce_bytes_per_s'] / 1e9:.1f} GB/s"
    )


def draw(cells: list[Record], summary: Record, path: Path) -> None:
    """Measured across, simulated up, one colour per algorithm; on the line both agree."""
    picture = figure(8, 7)
    panel = picture.subplots()
    names = list(dict.fromkeys(cell["algorithm"] for cell in cells))
    for index, name in enumerate(names):
        of = [cell for cell in cells if cell["algorithm"] == name]
        panel.plot(
            [cell["measured_s"] * 1e3 for cell in of],
            [cell["simulated_s"] * 1e3 for cell in of],
            "o",
            color=colormaps["tab20"](index),
            markersize=4,
            alpha=0.8,
            label=f"{name}: {summary['error_by_algorithm'][name]:.1%}",
        )
    times_ms = [cell[field] * 1e3 for cell in cells for field in ("measured_s", "simulated_s")]
    ends_ms = [min(times_ms) / 1.3, max(times_ms) * 1.3]
    panel.plot(ends_ms, ends_ms, color="0.3", linewidth=0.8)
    panel.fill_between(
        ends_ms, [t / 1.1 for t in ends_ms], [t * 1.1 for t in ends_ms], color="0.9", zorder=0
    )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(*ends_ms)
    panel.set_ylim(*ends_ms)
    panel.set_xlabel("measured average elapsed in ms")
    panel.set_ylabel("simulated average elapsed in ms")
    panel.set_title(
        f"{cells[0]['ranks']} ranks, {len(cells)} cells: geometric mean error "
        f"{summary['error']:.1%} (grey: within 10 %)"
    )
    panel.legend(title="error by algorithm", loc="upper left", fontsize=8)
    save(picture, path)
