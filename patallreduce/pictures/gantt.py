"""Picture: a simulated schedule as a Gantt chart, what every port sends and receives, and when.

rank 0  send     [0][1][2]           a box: a message, as long as it occupies the port
        receive        [0][1][2] <>  grey: before the rank's arrival; <>: its result is there

Where ranks share a node's port, that has the two lanes, and each rank one for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from patallreduce.pictures import figures
from patallreduce.pictures.lanes import Lanes, NodeLanes, RankLanes, Span, slots
from patallreduce.pricing.messages import Message

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ColourBy = Literal["segment", "verb"]

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
    node_of: Sequence[int] = (),
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
        node_of: (P,) the node of each rank; (): no two share one.

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
    lanes: Lanes = NodeLanes(node_of) if node_of else RankLanes(ranks)
    figure = figures.figure(12, 1.7 + min(0.25 * lanes.height, max(14.0, 0.024 * lanes.height)))
    panel = figure.subplots()
    _draw_messages(panel, messages, lanes, axis, None if colour_by == "verb" else segments)
    for rank in range(ranks):
        span = lanes.of_rank(rank)
        _draw_rank(panel, span, axis(arrivals_s[rank]), axis(finish_s[rank]))
    _label_lanes(panel, lanes)
    panel.set_xlim(0, axis(end_s) * 1.02 or 1.0)
    panel.set_xlabel(f"time after the first arrival [{axis.unit}]")
    if title:
        panel.set_title(title, loc="left")
    panel.spines[["top", "right"]].set_visible(False)
    if colour_by == "segment" and segments > 1:
        _add_colour_bar(figure, panel, segments)
    _add_legend(figure, colour_by, with_nodes=bool(node_of))
    figures.save(figure, path)


def _draw_messages(
    panel: Axes, messages: Sequence[Message], lanes: Lanes, axis: _Axis, segments: int | None
) -> None:
    """Draw each message twice, where it is sent and where it is received; None: colours by verb."""
    few = len(messages) <= _FEW * len({m.sender for m in messages})
    by_lane: dict[float, list[Message]] = {}
    for message in messages:
        for lane in lanes.boxes(message):
            by_lane.setdefault(lane, []).append(message)
    lines = [(m, span) for m in messages if (span := lanes.line(m)) is not None]
    panel.vlines(
        [axis(m.begin_s) for m, _ in lines],
        [start for _, (start, _) in lines],
        [end for _, (_, end) in lines],
        colors=[_colour(m, segments) for m, _ in lines],
        linewidth=0.8,
    )
    for lane, of_lane in by_lane.items():
        numbers = slots(of_lane)
        height = 1 / (1 + max(numbers))
        for sums in (True, False):
            shown = [(m, n) for m, n in zip(of_lane, numbers, strict=True) if m.sums == sums]
            low, part = (0.0, 0.92) if sums or segments is None else (0.42, 0.5)
            for number in sorted({n for _, n in shown}):
                boxes = [m for m, n in shown if n == number]
                panel.broken_barh(
                    [(axis(m.begin_s), axis(m.end_s) - axis(m.begin_s)) for m in boxes],
                    (lane + (number + low) * height, part * height),
                    facecolors=[_colour(m, segments) for m in boxes],
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


def _draw_rank(panel: Axes, span: Span, arrival: float, finish: float) -> None:
    if arrival > 0:
        panel.fill_betweenx(span, 0, arrival, color="0.92", linewidth=0, zorder=0)
    panel.vlines(arrival, *span, color="black", linewidth=2)
    panel.plot(
        finish,
        sum(span) / 2,
        marker="D",
        color="black",
        markerfacecolor="white",
        markersize=6,
        clip_on=False,
        zorder=3,
    )


def _label_lanes(panel: Axes, lanes: Lanes) -> None:
    panel.set_ylabel(lanes.title)
    panel.set_yticks([at for at, _ in lanes.labels], [text for _, text in lanes.labels])
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(lanes.height - 0.3, -0.35)


def _add_colour_bar(figure: Figure, panel: Axes, segments: int) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    mappable = ScalarMappable(Normalize(0, segments - 1), "viridis")
    bar = figure.colorbar(mappable, ax=panel, label="segment", pad=0.01, aspect=40)
    bar.set_ticks(MaxNLocator(10, integer=True))


def _add_legend(figure: Figure, colour_by: ColourBy, *, with_nodes: bool) -> None:
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
    if with_nodes:
        handles["within a node"] = Line2D(
            [], [], marker="|", color="0.5", markersize=14, mew=0.8, linestyle=""
        )
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
    )
