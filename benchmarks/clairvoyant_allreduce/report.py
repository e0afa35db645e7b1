"""Clairvoyant all-reduce beside its rivals, for a reader: tables, a summary and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.allreduce.report import describe_size
from benchmarks.lab.plan import Record
from patallreduce.pictures import figures
from patallreduce.text.table import text_table

from .cases import OTHERS, RIVALS


def ratios(record: Record) -> tuple[float, float]:
    """Makespan and average of clairvoyant over those of the best of ring, slt and prr."""
    rivals = record["rivals"].values()
    makespan_s, average_s = record["clairvoyant"]
    return (
        makespan_s / min(rival["makespan"][0] for rival in rivals),
        average_s / min(rival["average"][0] for rival in rivals),
    )


def print_tables(records: Sequence[Record]) -> None:
    """Print a table for each number of ranks, and what it all comes to."""
    for ranks in dict.fromkeys(record["ranks"] for record in records):
        rows = []
        for record in (record for record in records if record["ranks"] == ranks):
            rivals, bound = record["rivals"], record["bound"]
            best = min(rivals, key=lambda name: rivals[name]["makespan"][0])
            least_average_s = min(rival["average"][0] for rival in rivals.values())
            makespan, average = ratios(record)
            rows.append(
                [
                    describe_size(record["bytes"]),
                    record["pattern"],
                    f"{record['delay']:g}",
                    f"{bound[0] * 1e3:.2f}",
                    f"{record['clairvoyant'][0] / bound[0]:.3f}",
                    f"{rivals[best]['makespan'][0] / bound[0]:.3f}",
                    f"{best} {rivals[best]['makespan'][1]}",
                    f"{makespan:.3f}",
                    f"{record['clairvoyant'][1] / bound[1]:.3f}",
                    f"{least_average_s / bound[1]:.3f}",
                    f"{average:.3f}",
                ]
            )
        headings = (
            "bytes\n",
            "pattern\n",
            "delay\nM*beta",
            "bound\nms",
            "makespan/bound\nclairvoyant",
            "\nbest rival",
            "\nwhich, segments",
            "\nratio",
            "average/bound\nclairvoyant",
            "\nbest rival",
            "\nratio",
        )
        print(f"\n{ranks} ranks\n{text_table(headings, rows, left=(0, 1, 6))}")
    print(summary(records))


def summary(records: Sequence[Record]) -> str:
    """Where it wins and where it loses."""
    makespans = sorted(ratios(record)[0] for record in records)
    averages = [ratios(record)[1] for record in records]
    others = [
        record["clairvoyant"][0] / min(price[0] for price in record["others"].values())
        for record in records
    ]
    least = [
        record["clairvoyant"][0]
        / min(
            *(price[0] for price in record["others"].values()),
            *(rival["makespan"][0] for rival in record["rivals"].values()),
        )
        for record in records
    ]
    count = len(records)
    lines = [
        f"\n{count} cases. Makespan over that of the best of {', '.join(RIVALS)}: "
        f"{makespans[0]:.3f} to {makespans[-1]:.3f}, median {makespans[count // 2]:.3f}; "
        f"better by 5 % or more in {sum(ratio <= 0.95 for ratio in makespans)}, "
        f"worse by more than 1 % in {sum(ratio > 1.01 for ratio in makespans)}",
        f"average elapsed over the best of theirs: {min(averages):.3f} to {max(averages):.3f}; "
        f"better by 5 % in {sum(ratio <= 0.95 for ratio in averages)}, worse by more than 1 % in "
        f"{sum(ratio > 1.01 for ratio in averages)}",
        f"makespan over that of the best of {', '.join(OTHERS)}: {min(others):.3f} to "
        f"{max(others):.3f}; of the best of all these: {min(least):.3f} to {max(least):.3f}, "
        f"better by 5 % or more in {sum(ratio <= 0.95 for ratio in least)}",
    ]
    return "\n".join(lines)


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw makespan over the best rival's: a panel per number of ranks."""
    every = list(dict.fromkeys(record["ranks"] for record in records))
    sizes = list(dict.fromkeys(record["bytes"] for record in records))
    rows = list(dict.fromkeys((record["pattern"], record["delay"]) for record in records))
    figure = figures.figure(3 + 2.6 * len(every), 1.5 + 0.28 * len(rows))
    panels = figure.subplots(1, len(every), sharey=True, squeeze=False)[0]
    for panel, ranks in zip(panels, every, strict=True):
        cells = {
            (record["pattern"], record["delay"], record["bytes"]): ratios(record)[0]
            for record in records
            if record["ranks"] == ranks
        }
        grid = [[cells.get((*row, size), math.nan) for size in sizes] for row in rows]
        image = panel.imshow(grid, aspect="auto", cmap="RdBu_r", vmin=0.7, vmax=1.3)
        for y, line in enumerate(grid):
            for x, ratio in enumerate(line):
                colour = "white" if abs(ratio - 1) > 0.2 else "black"
                panel.text(x, y, f"{ratio:.2f}", color=colour, ha="center", va="center", fontsize=7)
        panel.set_title(f"{ranks} ranks", loc="left")
        panel.set_xticks(range(len(sizes)), [describe_size(size) for size in sizes], rotation=60)
    panels[0].set_yticks(
        range(len(rows)),
        [f"{name}, {delay:g} M$\\beta$" if delay else name for name, delay in rows],
    )
    figure.colorbar(
        image, ax=list(panels), label="makespan: clairvoyant / best of ring, slt, prr", shrink=0.6
    )
    figures.save(figure, path)
