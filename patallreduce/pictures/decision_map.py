"""Picture: a decision map, one panel for every number of ranks, bytes against delay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce.pictures import figures
from patallreduce.pricing.decision_map import Cell
from patallreduce.pricing.schedules import SAFE
from patallreduce.text.units import bytes_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3  # panels side by side


def decision_map(cells: Sequence[Cell], path: str | Path, *, title: str = "") -> None:
    """Draw who wins where: the colour is the winner, the number what the ring takes more [%].

    Args:
        cells: Of `decision_map.sweep`.
        path: File to write; its suffix is the format.
        title: Above the picture.

    Raises:
        ValueError: No cells.
        ModuleNotFoundError: matplotlib is not installed.
    """
    if not cells:
        raise ValueError("expected the cells of a decision map, got none")
    ranks = list(dict.fromkeys(cell.ranks for cell in cells))
    sizes_bytes = list(dict.fromkeys(cell.message_bytes for cell in cells))
    delays = list(dict.fromkeys(str(cell.delay) for cell in cells))
    colours = _colours([cell.winner for cell in cells])

    across = min(_ACROSS, len(ranks))
    down = -(-len(ranks) // across)
    width = max(6.5, across * (1.1 + 0.62 * len(sizes_bytes)))
    figure = figures.figure(width, 1.3 + down * (1.0 + 0.42 * len(delays)))
    panels = list(figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat)
    for panel, of in zip(panels, ranks, strict=False):
        for cell in cells:
            if cell.ranks == of:
                column = sizes_bytes.index(cell.message_bytes)
                _draw_cell(panel, column, delays.index(str(cell.delay)), cell, colours)
        panel.set_title(f"{of} ranks", loc="left")
        panel.set_xlabel("message")
        panel.set_xticks(range(len(sizes_bytes)), map(bytes_text, sizes_bytes), rotation=45)
        panel.set_yticks(range(len(delays)), delays)
        panel.set_xlim(-0.5, len(sizes_bytes) - 0.5)
        panel.set_ylim(-0.5, len(delays) - 0.5)
        panel.tick_params(length=0, labelbottom=True)
        panel.spines[:].set_visible(False)
    for panel in panels[len(ranks) :]:
        panel.set_visible(False)
    in_transfers = any(cell.delay.in_transfers for cell in cells)
    figure.supylabel(f"delay [{'transfers of the message' if in_transfers else 's'}]")
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    _add_legend(figure, colours)
    figures.save(figure, path)


def _draw_cell(panel: Axes, column: int, row: int, cell: Cell, colours: dict[str, str]) -> None:
    from matplotlib.patches import Rectangle

    colour = colours[cell.winner]
    panel.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, color=colour, linewidth=0))
    if cell.winner != SAFE:
        panel.text(
            column,
            row,
            f"{100 * cell.gain:.0f}",
            ha="center",
            va="center",
            fontsize="small",
            color="white" if _is_dark(colour) else "black",
        )


def _is_dark(colour: str) -> bool:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.55


def _colours(winners: Sequence[str]) -> dict[str, str]:
    """Grey for the ring, then Okabe and Ito's colours, the most frequent winner first."""
    others = sorted(set(winners) - {SAFE}, key=lambda name: (-winners.count(name), name))
    palette = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#F0E442", "black"]
    colours = {name: palette[n % len(palette)] for n, name in enumerate(others)}
    return {SAFE: "0.85", **colours}


def _add_legend(figure: Figure, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in colours.items()],
        loc="outside lower center",
        ncols=5,
        frameon=False,
        title="winner; the number: what the ring takes more [%]",
    )
