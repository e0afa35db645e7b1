"""Picture: a simulated schedule as a Gantt chart, what every port sends and receives, and when.

rank 0  send     [0][1][2]           a box: a message, as long as it occupies the port
        receive        [0][1][2] <>  grey: before the rank's arrival; <>: its result is there
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from patallreduce.pictures import figures
from patallreduce.pricing.messages import Message

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ColourBy = Literal["segment", "verb"]

_RANK = 2.5  # lanes and a gap
_FEW = 100  # boxes in a lane; the borders of more boxes would hide the colours
# Of the time axis: from this time in seconds on, its name, so many in a second.
_UNITS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "us", 1e6))


@dataclass(frozen=True)
class _Axis:
    """From seconds to what stands on the time axis."""

    start_s: float
    unit: str
    per_second: float

    def __call__(self, time_s: float) -> float:
        return (time_s - self.start_s) * self.per_second


def gantt(
    messages: Sequence[Message],
    arrivals_s: Sequence[float],
    finish_s: Sequence[float],
    path: str | Path,
    *,
    segments: int,
    title: str = "",
    colour_by: ColourBy = "segment",
) -> None:
    """Draw when every port is busy with which message; the suffix of `path` is the format.

    Args:
        messages: Of `simulated_messages`.
        arrivals_s: (P,) seconds.
        finish_s: (P,) seconds at which each rank has its result, on the same clock.
        path: File to write.
        segments: Of the schedule.
        title: Above the picture.
        colour_by: "segment": from the first to the last, results half as high. "verb": partial
            sums in one colour, results in another.

    Raises:
        ValueError: Arrivals and finishes are not of the same ranks, or there are none.
        ModuleNotFoundError: matplotlib is not installed.
    """
    ranks = len(arrivals_s)
    if not ranks or len(finish_s) != ranks:
        raise ValueError(
            f"expected arrivals and finishes of the same ranks, got {ranks} and {len(finish_s)}"
        )
    start_s = min(arrivals_s)
    end_s = max([*finish_s, *(m.end_s for m in messages)])
    axis = next(
        _Axis(start_s, unit, per_second)
        for least_s, unit, per_second in _UNITS
        if end_s - start_s >= least_s
    )
    figure = figures.figure(12, 1.7 + ranks * min(0.62, max(14.0 / ranks, 0.06)))
    panel = figure.subplots()
    _draw_messages(panel, messages, axis, None if colour_by == "verb" else segments)
    for rank in range(ranks):
        _draw_rank(panel, rank, axis(arrivals_s[rank]), axis(finish_s[rank]))
    _label_lanes(panel, ranks)
    panel.set_xlim(0, axis(end_s) * 1.02 or 1.0)
    panel.set_xlabel(f"time after the first arrival [{axis.unit}]")
    if title:
        panel.set_title(title, loc="left")
    panel.spines[["top", "right"]].set_visible(False)
    if colour_by == "segment" and segments > 1:
        _add_colour_bar(figure, panel, segments)
    _add_legend(figure, colour_by)
    figures.save(figure, path)


def _draw_messages(
    panel: Axes, messages: Sequence[Message], axis: _Axis, segments: int | None
) -> None:
    """Draw each message twice, where it is sent and where it is received; None: colours by verb."""
    few = len(messages) <= _FEW * len({m.sender for m in messages})
    lanes: dict[tuple[float, bool], list[Message]] = {}
    for message in messages:
        for lane in (message.sender * _RANK, message.receiver * _RANK + 1):
            lanes.setdefault((lane, message.sums), []).append(message)
    for (lane, sums), of_lane in lanes.items():
        panel.broken_barh(
            [(axis(m.begin_s), axis(m.end_s) - axis(m.begin_s)) for m in of_lane],
            (lane, 0.92) if sums or segments is None else (lane + 0.42, 0.5),
            facecolors=[_colour(m, segments) for m in of_lane],
            edgecolor="white",
            linewidth=0.4 if few else 0.0,
            rasterized=len(messages) > 5000,
        )


def _colour(message: Message, segments: int | None) -> str:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if segments is None:
        return figures.BLUE if message.sums else figures.VERMILION
    return to_hex(colormaps["viridis"](message.first / max(segments - 1, 1)))


def _draw_rank(panel: Axes, rank: int, arrival: float, finish: float) -> None:
    low, high = rank * _RANK - 0.12, rank * _RANK + 2.04
    if arrival > 0:
        panel.fill_betweenx([low, high], 0, arrival, color="0.92", linewidth=0, zorder=0)
    panel.vlines(arrival, low, high, color="black", linewidth=2)
    panel.plot(
        finish,
        (low + high) / 2,
        marker="D",
        color="black",
        markerfacecolor="white",
        markersize=6,
        clip_on=False,
        zorder=3,
    )


def _label_lanes(panel: Axes, ranks: int) -> None:
    if ranks <= 16:
        panel.set_ylabel("rank")
        panel.set_yticks(
            [r * _RANK + lane + 0.46 for r in range(ranks) for lane in (0, 1)],
            [text for r in range(ranks) for text in (f"{r} send", "receive")],
        )
        panel.tick_params(axis="y", length=0)
    else:
        panel.set_ylabel("rank (upper lane: what it sends, lower: what it receives)")
        shown = range(0, ranks, -(-ranks // 32))
        panel.set_yticks([r * _RANK + 1 for r in shown], [str(r) for r in shown])
    panel.set_ylim(ranks * _RANK - 0.3, -0.35)


def _add_colour_bar(figure: Figure, panel: Axes, segments: int) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    mappable = ScalarMappable(Normalize(0, segments - 1), "viridis")
    bar = figure.colorbar(mappable, ax=panel, label="segment", pad=0.01, aspect=40)
    bar.set_ticks(MaxNLocator(10, integer=True))


def _add_legend(figure: Figure, colour_by: ColourBy) -> None:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    sums: Artist = Patch(color=figures.BLUE)
    result: Artist = Patch(color=figures.VERMILION)
    if colour_by == "segment":
        sums, result = (Line2D([], [], color="0.5", linewidth=width) for width in (11, 6))
    arrival = Line2D([], [], marker="|", color="black", markersize=14, mew=2, linestyle="")
    finish = Line2D([], [], marker="D", color="black", markerfacecolor="white", linestyle="")
    handles: dict[str, Artist] = {
        "a partial sum": sums,
        "a result": result,
        "not arrived yet": Patch(color="0.92"),
        "arrival": arrival,
        "the rank has its result": finish,
    }
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
    )
