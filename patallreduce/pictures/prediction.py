"""Picture: predicted against real arrivals, and the errors over the iterations."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from patallreduce.pictures import figures
from patallreduce.records.iterations import Iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def predicted_against_real(iterations: Sequence[Iteration], path: str | Path) -> None:
    """Draw predicted against real lateness, and the error of the predictions over the iterations.

    Both are counted from the median rank's real arrival, so that the distance from the diagonal is
    the error of the prediction.

    Raises:
        ValueError: No iterations, of different numbers of ranks, or none with a prediction.
        ModuleNotFoundError: matplotlib is not installed.
    """
    figures.checked_ranks(iterations)
    predicted = [
        i for i in iterations if i.last_rank is not None and i.predicted_last_rank is not None
    ]
    if not predicted:
        raise ValueError("none of the iterations has both predicted and real arrivals of all ranks")
    figure = figures.figure(11, 4.6)
    scatter, errors = figure.subplots(1, 2, width_ratios=[1, 1.5])
    _draw_scatter(scatter, predicted)
    _draw_errors(errors, predicted)
    _add_panel_legend(figure, scatter, "outside lower left")
    _add_panel_legend(figure, errors, "outside lower right")
    figures.save(figure, path)


def _draw_scatter(panel: Axes, predicted: Sequence[Iteration]) -> None:
    groups: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for iteration in predicted:
        for rank, real_s in enumerate(iteration.lateness_s):
            expected_s = iteration.predicted_s[rank] - iteration.median_arrival_s
            groups[rank == iteration.last_rank].append((real_s * 1e3, expected_s * 1e3))
    styles = {
        False: ("other ranks", figures.BLUE, "o"),
        True: ("the rank that was last", figures.VERMILION, "D"),
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
    low_ms, high_ms = _range_without_strays(shown)
    margin_ms = 0.05 * (high_ms - low_ms) or 1.0
    limits = low_ms - margin_ms, high_ms + margin_ms
    panel.set(xlim=limits, ylim=limits)
    panel.locator_params(nbins=6)
    outside = sum(
        not all(limits[0] <= value <= limits[1] for value in point)
        for points in groups.values()
        for point in points
    )
    panel.axline((0, 0), slope=1, color="black", linewidth=1, linestyle="--", zorder=0)
    panel.set_xlabel("real arrival after the median rank's [ms]")
    panel.set_ylabel("predicted arrival after the same [ms]")
    note = f" (not shown: {outside} far off)" if outside else ""
    panel.set_title(f"Predicted against real{note}", loc="left")
    panel.spines[["top", "right"]].set_visible(False)


def _draw_errors(panel: Axes, predicted: Sequence[Iteration]) -> None:
    numbers = range(len(predicted))
    of_all_ms = [1e3 * statistics.fmean(map(abs, i.prediction_error_s)) for i in predicted]
    of_last_ms = [1e3 * abs(i.prediction_error_s[i.last_rank or 0]) for i in predicted]
    width = 1.2 if len(predicted) <= 200 else 0.6
    panel.plot(
        numbers,
        of_last_ms,
        color=figures.VERMILION,
        linewidth=width,
        label="of the rank that was last",
    )
    panel.plot(numbers, of_all_ms, color=figures.BLUE, linewidth=width, label="mean of all ranks")
    wrong = [n for n in numbers if predicted[n].predicted_last_rank != predicted[n].last_rank]
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
    panel.set_ylim(0, 1.1 * _range_without_strays(of_all_ms + of_last_ms)[1] or 1.0)
    panel.set_xlabel("iteration")
    figures.number_iterations(panel, predicted)
    panel.set_ylabel("absolute error of the prediction [ms]")
    panel.set_title(
        f"Error; the last rank was named in {right:.0f} % of iterations", loc="left", pad=14
    )
    panel.spines[["top", "right"]].set_visible(False)


def _range_without_strays(values: Sequence[float]) -> tuple[float, float]:
    """Return the least and the largest value, without those that are far out.

    Far out is more than five times as far from 0 as 98 % of the values are. The first iterations of
    a job may take a hundred times as long as all others.
    """
    far = 5 * figures.quantile([abs(value) for value in values], 0.98)
    usual = [value for value in values if abs(value) <= far]
    return min(usual), max(usual)


def _add_panel_legend(
    figure: Figure, panel: Axes, where: Literal["outside lower left", "outside lower right"]
) -> None:
    """Explain a panel outside of it, where no point is hidden wherever the data lie."""
    handles, labels = panel.get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc=where, ncols=3, frameon=False, fontsize="small")
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
