"""What the pictures of iterations have in common: size, axes, colours, and the way to a file.

matplotlib is imported only when something is drawn: `pip install patallreduce[viz]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce.records.iterations import Iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue, yellow and vermilion of Okabe and Ito's palette: told apart by colour-blind readers, and by
# lightness alone in a grey print.
BLUE, YELLOW, VERMILION = "#0072B2", "#F0E442", "#D55E00"


def figure(width: float, height: float) -> Figure:
    """Make an empty figure of this size in inches; an error says how to get matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"pictures need matplotlib: pip install 'patallreduce[viz]' ({error})"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure, and the folder it belongs into."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def checked_ranks(iterations: Sequence[Iteration]) -> int:
    """Return P; raise ValueError if there are no iterations, or of different numbers of ranks."""
    ranks = {i.ranks for i in iterations}
    if len(ranks) != 1 or not min(ranks):
        raise ValueError(
            f"expected iterations of the same ranks, got {len(iterations)} iterations of "
            f"{' and '.join(map(str, sorted(ranks))) or 'no'} ranks"
        )
    return ranks.pop()


def lane_inches(ranks: int) -> float:
    """Return the height of one rank's lane: the same for few ranks, less for many."""
    return min(0.32, max(8.0 / ranks, 0.02))


def rank_ticks(panel: Axes, ranks: int) -> None:
    """Number the lanes, at most 32 of them."""
    panel.set_yticks(range(0, ranks, math.ceil(ranks / 32)))


def number_iterations(panel: Axes, iterations: Sequence[Iteration]) -> None:
    """Label positions in the list with the iterations' own numbers."""
    from matplotlib import ticker

    def number(position: float, _: int | None = None) -> str:
        index = round(position)
        return str(iterations[index].iteration) if 0 <= index < len(iterations) else ""

    panel.xaxis.set_major_locator(ticker.MaxNLocator(10, integer=True))
    panel.xaxis.set_major_formatter(ticker.FuncFormatter(number))


def quantile(values: Sequence[float], share: float) -> float:
    """Return what `share` of the known values do not exceed; 0 if there are none."""
    known = sorted(value for value in values if not math.isnan(value))
    return known[int(share * (len(known) - 1))] if known else 0.0
