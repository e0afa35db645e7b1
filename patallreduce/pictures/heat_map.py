"""Picture: how late each rank was in each iteration, and how often it was last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce.pictures import figures
from patallreduce.records.iterations import Iteration

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

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
    ranks = figures.checked_ranks(iterations)
    pooled = math.ceil(len(iterations) / _MOST_COLUMNS)
    cells_ms = [
        [
            _worst_ms(iterations[first : first + pooled], rank)
            for first in range(0, len(iterations), pooled)
        ]
        for rank in range(ranks)
    ]
    worst_ms = [_worst_of(column) for column in zip(*cells_ms, strict=True)]
    most_ms = figures.quantile(worst_ms, 0.95)

    figure = figures.figure(11, 1.8 + ranks * figures.lane_inches(ranks))
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
    figures.number_iterations(panel, iterations)
    panel.set_ylabel("rank")
    panel.set_title("Lateness: arrival after the median rank's", loc="left")
    figures.rank_ticks(panel, ranks)
    above = figures.quantile(worst_ms, 1.0) > most_ms
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
    shares.barh(range(ranks), percents, color=figures.BLUE)
    shares.set_xlabel("last of all\n[% of iterations]")
    shares.set_xlim(0, max(100.0 / ranks, *percents) * 1.05)
    shares.spines[["top", "right"]].set_visible(False)
    figures.save(figure, path)


def _worst_ms(iterations: Sequence[Iteration], rank: int) -> float:
    # How early an early rank is says nothing about who is waited for: it counts as on time.
    return _worst_of([max(1e3 * i.lateness_s[rank], 0.0) for i in iterations])


def _worst_of(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _heat_colours() -> Colormap:
    """White for on time, then darker and darker, which colour-blind readers see as well."""
    from matplotlib import colormaps

    return colormaps["OrRd"].with_extremes(bad=_UNKNOWN)
