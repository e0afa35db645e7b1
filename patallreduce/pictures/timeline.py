"""Picture: what each rank did, and when: computing, waiting for the last rank, communicating."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce.pictures import figures
from patallreduce.records.activities import Activity, Interval, lanes
from patallreduce.records.iterations import Iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: dict[Activity, str] = {
    "computation": figures.BLUE,
    "waiting": figures.YELLOW,
    "communication": figures.VERMILION,
}
MEANINGS: dict[Activity, str] = {
    "computation": "computing",
    "waiting": "waiting for the last rank's gradients",
    "communication": "communicating after they are there",
}


def timeline(iterations: Sequence[Iteration], path: str | Path, *, last: int = 4) -> None:
    """Draw what each rank did in the last `last` iterations: computing, waiting, communicating.

    Raises:
        ValueError: No iterations, of different numbers of ranks, or `last` < 1.
        ModuleNotFoundError: matplotlib is not installed.
    """
    ranks = figures.checked_ranks(iterations)
    if last < 1:
        raise ValueError(f"last: expected a number >= 1, got {last}")
    shown = iterations[-last:]
    known_s = [t for i in shown for t in (*i.start_s, *i.finish_s) if not math.isnan(t)]
    if not known_s:
        raise ValueError("no start or finish is known of the iterations to draw")
    zero_s, end_s = min(known_s), max(known_s)
    figure = figures.figure(11, 1.9 + ranks * figures.lane_inches(ranks))
    panel = figure.subplots()
    for iteration in shown:
        draw_lanes(
            panel,
            lanes(iteration.start_s, iteration.arrival_s, iteration.finish_s),
            iteration.start_s,
            zero_s,
        )
        for rank, predicted_s in enumerate(iteration.predicted_s):
            panel.plot(predicted_s - zero_s, rank, marker="D", color="black", markersize=4)
    figures.rank_ticks(panel, ranks)
    panel.set_ylabel("rank")
    panel.set_ylim(ranks - 0.4, -0.6)
    panel.set_xlim(0, (end_s - zero_s) * 1.01)
    numbers = f"{shown[0].iteration} to {shown[-1].iteration}"
    panel.set_title(f"Iterations {numbers}: {end_s - zero_s:.3f} s", loc="left")
    panel.set_xlabel("time [s] (at each black line a rank begins an iteration)")
    panel.spines[["top", "right"]].set_visible(False)
    add_legend(figure, predicted=any(i.predicted_last_rank is not None for i in shown))
    figures.save(figure, path)


def draw_lanes(
    panel: Axes, of_ranks: Sequence[Sequence[Interval]], starts_s: Sequence[float], zero_s: float
) -> None:
    """Draw one iteration into a panel: a lane per rank, a line where it starts."""
    for rank, intervals in enumerate(of_ranks):
        panel.broken_barh(
            [(i.start_s - zero_s, i.end_s - i.start_s) for i in intervals],
            (rank - 0.4, 0.8),
            facecolors=[COLOURS[i.activity] for i in intervals],
        )
        panel.vlines(starts_s[rank] - zero_s, rank - 0.4, rank + 0.4, color="black")


def add_legend(figure: Figure, *, predicted: bool = False) -> None:
    """Explain the colours of `draw_lanes` below the panels, and the mark of a predicted arrival."""
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = [Patch(color=COLOURS[a], label=MEANINGS[a]) for a in COLOURS]
    if predicted:
        mark = Line2D([], [], marker="D", color="black", markersize=4, linestyle="")
        mark.set_label("predicted arrival")
        handles.append(mark)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
