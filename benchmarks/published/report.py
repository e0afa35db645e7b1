"""PAP18's tables beside the simulated ones, for a reader: rich tables and one picture."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lab.plan import Record
from patallreduce.pictures.figures import figure, save

from .tables import DELAYS_MS, RANKS


def print_tables(records: list[Record]) -> None:
    """Print both tables, a row of the paper and a row of ours, then the cells that differ."""
    console = Console(width=120, highlight=False)
    elapsed = [record for record in records if record["table"] == 3]
    table = _table("Table 3: average elapsed in ms, one rank late, 4 MiB, 48 ranks", "algorithm")
    for name, cells in groupby(elapsed, key=lambda r: r["algorithm"]):
        row = list(cells)
        table.add_row(name, "paper", *(f"{r['paper_ms']:.1f}" for r in row))
        table.add_row(
            "", "other simulator", *(_or_dash(r["other_simulator_ms"], ".1f") for r in row)
        )
        table.add_row("", "simulated", *(_marked(r, f"{r['simulated_ms']:.1f}") for r in row))
        table.add_row("", "error to the paper's", *(f"{r['error']:+.1%}" for r in row))
        table.add_row("", "to the other's", *(_or_dash(r["other_error"], "+.2%") for r in row))
    console.print(table)
    speed_ups = [record for record in records if record["table"] == 4]
    for mode, of_mode in groupby(speed_ups, key=lambda r: r["mode"]):
        table = _table(f"Table 4: speed-up of prr over ring, {mode}", "K floats")
        for kfloats, cells in groupby(of_mode, key=lambda r: r["kfloats"]):
            row = list(cells)
            table.add_row(str(kfloats), "paper", *(f"{r['paper_speed_up']:.2f}" for r in row))
            table.add_row(
                "", "simulated", *(_marked(r, f"{r['simulated_speed_up']:.2f}") for r in row)
            )
        console.print(table)
    _print_differing(console, records)


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    table.add_column("delay in ms")
    for delay_ms in DELAYS_MS:
        table.add_column(str(delay_ms), justify="right")
    return table


def _or_dash(value: float | None, how: str) -> str:
    return "-" if value is None else format(value, how)


def _marked(record: Record, text: str) -> str:
    return text if record["right"] else f"[red]{text} ![/red]"


def _print_differing(console: Console, records: list[Record]) -> None:
    elapsed = [record for record in records if record["table"] == 3]
    _print_furthest(console, elapsed, "error", "the paper's", 0.1)
    _print_furthest(console, elapsed, "other_error", "the other simulator's", 0.03)
    speed_ups = [record for record in records if record["table"] == 4]
    for side, cells in (
        ("above 1.05", [r for r in speed_ups if r["paper_speed_up"] > 1.05]),
        ("below 0.95", [r for r in speed_ups if r["paper_speed_up"] < 0.95]),
    ):
        right = sum(r["right"] for r in cells)
        console.print(f"Table 4, paper's {side}: {right} of {len(cells)} on its side of 1.")
    differing = [r for r in speed_ups if not r["right"]]
    if not differing:
        return
    table = Table(title="Cells on the other side of 1, and what was found", title_justify="left")
    for heading in ("mode", "K floats", "delay ms", "paper", "simulated", "pre-steps"):
        table.add_column(heading, justify="right")
    for heading in ("lost us a step", "one more pass", "ring at 0 ms", "least ms"):
        table.add_column(heading, justify="right")
    for r in differing:
        low_ms, high_ms = r["paper_ring_at_0_ms"]
        table.add_row(
            r["mode"],
            str(r["kfloats"]),
            str(r["delay_ms"]),
            f"{r['paper_speed_up']:.2f}",
            f"{r['simulated_speed_up']:.2f}",
            f"{r['pre_steps']:.1f}",
            f"{r['paper_difference_ms'] * 1e3 / (2 * (RANKS - 1)):.0f}",
            f"{r['speed_up_with_one_more_pass']:.2f}",
            f"{low_ms:.0f}-{high_ms:.0f}",
            f"{r['least_ring_ms']:.0f}",
        )
    console.print(table)
    console.print(
        "Without pre-steps prr is the ring, rank by rank: what it lost there is its program's.\n"
        "lost: the paper's difference over the 2(P-1) steps. one more pass: simulated speed-up\n"
        "if each of prr's sums took one more pass over memory (1 GB/s). ring at 0 ms: what the\n"
        "paper's difference and speed-up imply; least: what the bytes alone take at 1 Gbit/s.\n"
        "Where the ring beats that, the row cannot be of that size on that link."
    )


def _print_furthest(
    console: Console, elapsed: list[Record], error: str, whose: str, most: float
) -> None:
    cells = [record for record in elapsed if record[error] is not None]
    furthest = max(cells, key=lambda r: abs(r[error]))
    console.print(
        f"Table 3: {sum(abs(r[error]) <= most for r in cells)} of {len(cells)} cells within "
        f"{most:.0%} of {whose}; furthest off {furthest[error]:+.2%} "
        f"({furthest['algorithm']}, {furthest['delay_ms']} ms)."
    )


def draw(records: list[Record], path: Path) -> None:
    """Average elapsed over delay (the paper's Fig. 10), and prr's speed-up by size, both modes."""
    picture = figure(13, 9)
    axes = picture.subplots(2, 2)
    elapsed = [record for record in records if record["table"] == 3]
    _draw_lines(axes[0, 0], elapsed, "algorithm", "ms")
    axes[0, 0].set_title("one rank late, 4 MiB, 48 ranks, 1 Gbit/s")
    axes[0, 0].set_ylabel("average elapsed in ms")
    axes[0, 0].set_yscale("log")
    # On a logarithmic scale the algorithms can hardly be told apart: all wait for the late rank.
    _draw_lines(axes[0, 1], [_without_waiting(record) for record in elapsed], "algorithm", "ms")
    axes[0, 1].set_title("the same less what 47 of 48 ranks must wait")
    axes[0, 1].set_ylabel("average elapsed - 47/48 delay in ms")
    axes[0, 1].set_ylim(bottom=0)
    for panel, mode in ((axes[1, 0], "one-late"), (axes[1, 1], "rand-late")):
        of_mode = [r for r in records if r["table"] == 4 and r["mode"] == mode]
        _draw_lines(panel, of_mode, "kfloats", "speed_up")
        panel.set_title("one rank late" if mode == "one-late" else "all late, up to the delay")
        panel.set_ylabel("speed-up of prr over ring")
        panel.set_ylim(0.75, 1.55)
        panel.axhline(1, color="grey", linewidth=0.8)
    save(picture, path)


def _without_waiting(record: Record) -> Record:
    waiting_ms = record["delay_ms"] * (RANKS - 1) / RANKS
    ours_ms, theirs_ms = record["simulated_ms"], record["paper_ms"]
    return {**record, "simulated_ms": ours_ms - waiting_ms, "paper_ms": theirs_ms - waiting_ms}


def _draw_lines(panel: Any, records: list[Record], of: str, figure: str) -> None:
    """Draw a line through the simulated figures and dots at the paper's, for each value of `of`."""
    for index, (label, cells) in enumerate(groupby(records, key=lambda r: r[of])):
        row = list(cells)
        delays_ms = [r["delay_ms"] for r in row]
        color = f"C{index}"
        name = f"{label} K floats" if of == "kfloats" else label
        panel.plot(delays_ms, [r[f"simulated_{figure}"] for r in row], color=color, label=name)
        panel.plot(delays_ms, [r[f"paper_{figure}"] for r in row], "o", color=color, clip_on=False)
    panel.set_xscale("symlog", linthresh=1, linscale=0.4)
    panel.set_xlim(0, DELAYS_MS[-1])
    panel.set_xlabel("delay in ms (0, then logarithmic)")
    # Beside, never over the data.
    panel.legend(title="line: simulated\ndot: paper", loc="upper left", bbox_to_anchor=(1.02, 1))
