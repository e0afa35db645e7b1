"""Pictures of iterations: who was late when, how good the predictions were, what everybody did.

matplotlib is needed, and imported only here: `pip install patallreduce[viz]`. The format of a
picture follows from its suffix: png, svg, pdf.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce.activities import Activity, Interval, lanes
from patallreduce.iterations import Iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Blue, yellow and vermilion of Okabe and Ito's palette: told apart by colour-blind readers, and by
# lightness alone in a grey print.
COLOURS: dict[Activity, str] = {
    "computation": "#0072B2",
    "waiting": "#F0E442",
    "communication": "#D55E00",
}
MEANINGS: dict[Activity, str] = {
    "computation": "computing",
    "waiting": "waiting for the last rank's gradients",
    "communication": "communicating after they are there",
}
_UNKNOWN = "0.8"
# More columns than a picture has pixels would hide single iterations.
_MOST_COLUMNS = 800


def arrival_heat_map(iterations: Sequence[Iteration], path: str | Path) -> None:
    """Draw how late each rank was in each iteration, and how often it was last.

    The colours end at what the latest rank reaches in all but 5 % of the iterations, so that one
    outlier does not hide everything else. Of many iterations, neighbours share a column that shows
    the worst of them.

    Raises:
        ValueError: No iterations, or of different numbers of ranks.
        ModuleNotFoundError: matplotlib is not installed.
    """
    ranks = _checked_ranks(iterations)
    pooled = math.ceil(len(iterations) / _MOST_COLUMNS)
    cells_ms = [
        [
            _worst_ms(iterations[first : first + pooled], rank)
            for first in range(0, len(iterations), pooled)
        ]
        for rank in range(ranks)
    ]
    worst_ms = [_worst_of(column) for column in zip(*cells_ms, strict=True)]
    most_ms = _quantile(worst_ms, 0.95)

    figure = _figure(11, 1.8 + ranks * _lane_inches(ranks))
    panel, shares = figure.subplots(1, 2, sharey=True, width_ratios=[8, 1])
    image = panel.imshow(
        cells_ms,
        aspect="auto",
        interpolation="nearest",
        cmap=_heat_colours(),
        vmin=0.0,
        vmax=most_ms or 1.0,
        extent=(-0.5, len(cells_ms[0]) * pooled - 0.5, ranks - 0.5, -0.5),
    )
    panel.set_xlabel("iteration" if pooled == 1 else f"iteration (a column: worst of {pooled})")
    _number_iterations(panel, iterations)
    panel.set_ylabel("rank")
    panel.set_title("Lateness: arrival after the median rank's", loc="left")
    _rank_ticks(panel, ranks)
    above = _quantile(worst_ms, 1.0) > most_ms
    figure.colorbar(
        image,
        ax=panel,
        label="late by [ms]",
        pad=0.01,
        aspect=figure.get_figheight() / 0.2,
        extend="max" if above else "neither",
        extendfrac=0.03,
    )
    lasts = [i.last_rank for i in iterations if i.last_rank is not None]
    percents = [100 * lasts.count(rank) / len(lasts) if lasts else 0.0 for rank in range(ranks)]
    shares.barh(range(ranks), percents, color=COLOURS["computation"])
    shares.set_xlabel("last of all\n[% of iterations]")
    shares.set_xlim(0, max(100.0 / ranks, *percents) * 1.05)
    shares.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def predicted_against_real(iterations: Sequence[Iteration], path: str | Path) -> None:
    """Draw predicted against real lateness, and the error of the predictions over the iterations.

    Both are counted from the median rank's real arrival, so that the distance from the diagonal is
    the error of the prediction.

    Raises:
        ValueError: No iterations, of different numbers of ranks, or none with a prediction.
        ModuleNotFoundError: matplotlib is not installed.
    """
    _checked_ranks(iterations)
    predicted = [i for i in iterations if i.last_rank is not None and _is_predicted(i)]
    if not predicted:
        raise ValueError("none of the iterations has both predicted and real arrivals of all ranks")
    figure = _figure(11, 4.6)
    scatter, errors = figure.subplots(1, 2, width_ratios=[1, 1.5])
    _draw_scatter(scatter, predicted)
    _draw_errors(errors, predicted)
    _save(figure, path)


def timeline(iterations: Sequence[Iteration], path: str | Path, *, last: int = 4) -> None:
    """Draw what each rank did in the last `last` iterations: computing, waiting, communicating.

    Raises:
        ValueError: No iterations, of different numbers of ranks, or `last` < 1.
        ModuleNotFoundError: matplotlib is not installed.
    """
    ranks = _checked_ranks(iterations)
    if last < 1:
        raise ValueError(f"last: expected a number >= 1, got {last}")
    shown = iterations[-last:]
    known_s = [t for i in shown for t in (*i.start_s, *i.finish_s) if not math.isnan(t)]
    if not known_s:
        raise ValueError("no start or finish is known of the iterations to draw")
    zero_s, end_s = min(known_s), max(known_s)
    figure = _figure(11, 1.9 + ranks * _lane_inches(ranks))
    panel = figure.subplots()
    for iteration in shown:
        draw_lanes(panel, lanes(*_times(iteration)), iteration.start_s, zero_s)
        for rank, predicted_s in enumerate(iteration.predicted_s):
            panel.plot(predicted_s - zero_s, rank, marker="D", color="black", markersize=4)
    _rank_ticks(panel, ranks)
    panel.set_ylabel("rank")
    panel.set_ylim(ranks - 0.4, -0.6)
    panel.set_xlim(0, (end_s - zero_s) * 1.01)
    numbers = f"{shown[0].iteration} to {shown[-1].iteration}"
    panel.set_title(f"Iterations {numbers}: {end_s - zero_s:.3f} s", loc="left")
    panel.set_xlabel("time [s] (at each black line a rank begins an iteration)")
    panel.spines[["top", "right"]].set_visible(False)
    add_legend(figure, predicted=any(_is_predicted(i) for i in shown))
    _save(figure, path)


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
        handles.append(
            Line2D(
                [],
                [],
                marker="D",
                color="black",
                markersize=4,
                linestyle="",
                label="predicted arrival",
            )
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def _draw_scatter(panel: Axes, predicted: Sequence[Iteration]) -> None:
    groups: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for iteration in predicted:
        for rank, real_s in enumerate(iteration.lateness_s):
            expected_s = iteration.predicted_s[rank] - iteration.median_arrival_s
            groups[rank == iteration.last_rank].append((real_s * 1e3, expected_s * 1e3))
    styles = {
        False: ("other ranks", COLOURS["computation"], "o"),
        True: ("the rank that was last", COLOURS["communication"], "D"),
    }
    for is_last, points in groups.items():
        label, colour, marker = styles[is_last]
        alpha = min(1.0, max(0.15, 300 / max(len(points), 1)))
        x, y = zip(*points, strict=True) if points else ((), ())
        panel.scatter(
            x,
            y,
            s=14,
            c=colour,
            marker=marker,
            alpha=alpha,
            label=label,
            rasterized=True,
            linewidths=0,
        )
    # One scale for both, and the same end: a stray prediction must not squeeze all others together.
    shown = [value for points in groups.values() for point in points for value in point]
    low_ms, high_ms = _quantile(shown, 0.002), _quantile(shown, 0.998)
    margin_ms = 0.05 * (high_ms - low_ms) or 1.0
    limits = low_ms - margin_ms, high_ms + margin_ms
    panel.set(xlim=limits, ylim=limits)
    outside = sum(
        not all(limits[0] <= value <= limits[1] for value in point)
        for points in groups.values()
        for point in points
    )
    panel.axline((0, 0), slope=1, color="black", linewidth=1, linestyle="--", zorder=0)
    panel.set_xlabel("real arrival after the median rank's [ms]")
    panel.set_ylabel("predicted arrival after the same [ms]")
    note = f" ({outside} points lie outside)" if outside else ""
    panel.set_title(f"Predicted against real{note}", loc="left")
    legend = panel.legend(frameon=False)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_errors(panel: Axes, predicted: Sequence[Iteration]) -> None:
    numbers = [i.iteration for i in predicted]
    of_all_ms = [1e3 * statistics.fmean(map(abs, i.prediction_error_s)) for i in predicted]
    of_last_ms = [1e3 * abs(i.prediction_error_s[i.last_rank or 0]) for i in predicted]
    width = 1.2 if len(predicted) <= 200 else 0.6
    panel.plot(
        numbers,
        of_last_ms,
        color=COLOURS["communication"],
        linewidth=width,
        label="of the rank that was last",
    )
    panel.plot(
        numbers, of_all_ms, color=COLOURS["computation"], linewidth=width, label="mean of all ranks"
    )
    wrong = [i.iteration for i in predicted if i.predicted_last_rank != i.last_rank]
    right = 100 * (1 - len(wrong) / len(predicted))
    panel.plot(
        wrong,
        [1.02] * len(wrong),
        "|",
        color="black",
        markersize=6,
        clip_on=False,
        transform=panel.get_xaxis_transform(),
        label="another rank was last than predicted",
    )
    errors_ms = of_all_ms + of_last_ms
    most_ms, usual_ms = _quantile(errors_ms, 1.0), _quantile(errors_ms, 0.995)
    panel.set_ylim(0, 1.1 * (most_ms if most_ms <= 3 * usual_ms else usual_ms) or 1.0)
    panel.set_xlabel("iteration")
    panel.set_ylabel("absolute error of the prediction [ms]")
    panel.set_title(
        f"Error; the last rank was named in {right:.0f} % of iterations", loc="left", pad=14
    )
    panel.legend(frameon=False)
    panel.spines[["top", "right"]].set_visible(False)


def _checked_ranks(iterations: Sequence[Iteration]) -> int:
    ranks = {i.ranks for i in iterations}
    if len(ranks) != 1 or not min(ranks):
        raise ValueError(
            f"expected iterations of the same ranks, got {len(iterations)} iterations of "
            f"{' and '.join(map(str, sorted(ranks))) or 'no'} ranks"
        )
    return ranks.pop()


def _times(iteration: Iteration) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    return iteration.start_s, iteration.arrival_s, iteration.finish_s


def _is_predicted(iteration: Iteration) -> bool:
    return iteration.predicted_last_rank is not None


def _worst_ms(iterations: Sequence[Iteration], rank: int) -> float:
    # How early an early rank is says nothing about who is waited for: it counts as on time.
    return _worst_of([max(1e3 * i.lateness_s[rank], 0.0) for i in iterations])


def _quantile(values: Sequence[float], share: float) -> float:
    """Return what `share` of the known values do not exceed; 0 if there are none."""
    known = sorted(value for value in values if not math.isnan(value))
    return known[int(share * (len(known) - 1))] if known else 0.0


def _worst_of(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _heat_colours() -> Colormap:
    """White for on time, then darker and darker, which needs no sight for colours."""
    from matplotlib import colormaps

    return colormaps["OrRd"].with_extremes(bad=_UNKNOWN)


def _lane_inches(ranks: int) -> float:
    return min(0.32, max(8.0 / ranks, 0.02))


def _rank_ticks(panel: Axes, ranks: int) -> None:
    panel.set_yticks(range(0, ranks, math.ceil(ranks / 32)))


def _number_iterations(panel: Axes, iterations: Sequence[Iteration]) -> None:
    """Label positions in the list with the iterations' own numbers."""
    from matplotlib import ticker

    def number(position: float, _: int | None = None) -> str:
        index = round(position)
        return str(iterations[index].iteration) if 0 <= index < len(iterations) else ""

    panel.xaxis.set_major_locator(ticker.MaxNLocator(10, integer=True))
    panel.xaxis.set_major_formatter(ticker.FuncFormatter(number))


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: str | Path) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
