"""Picture: stream programs laid out in time, four lanes to a rank.

rank 0  host       [queues] ------------------------>   goes on at once
        caller's   ...backward]              [goes on   the stream that makes and takes the tensor
        messages              [group 1][group 2]        hatched: waits for a peer, on the GPU
        sums                           [1]     [2]<>    <>: the result is at home

Arrows are events: to a group from the sums, or the arrival, that it waits for, to sums from their
group, and from the result to the caller. Times are those of `stream_times`: nothing is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce import figures
from patallreduce.stream_stages import Stage, waits
from patallreduce.stream_tables import span
from patallreduce.stream_times import GroupTime, MessageTime, RankTimes, SumTime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LANES = ("host", "caller's", "messages", "sums")
_HOST, _CALLER, _MESSAGES, _SUMS = range(4)
_RANK = 4.7  # lanes and a gap
_HEIGHT = 0.7  # of a box, in lanes
_MOST = 3000  # boxes: more are no picture any more
_LABELLED = 30  # groups of a rank
_WAITS, _CALLERS = "#cfe3f2", "0.85"
_SMALL = 6.5  # letters


@dataclass(frozen=True)
class Drawn:
    """One rank of the picture."""

    rank: int
    stages: Sequence[Stage]
    times: RankTimes
    arrival_s: float


def stream_picture(
    ranks: Sequence[Drawn], path: str | Path, *, queued_s: float, title: str = ""
) -> None:
    """Draw what runs on which stream of these ranks; the suffix of `path` is the format.

    Args:
        ranks: From top to bottom.
        path: File to write.
        queued_s: When the hosts queue the collective: the picture begins shortly before.
        title: Above the picture.

    Raises:
        ValueError: There are no ranks, or more groups and sums than can be seen.
        ModuleNotFoundError: matplotlib is not installed.
    """
    boxes = sum(len(drawn.times.groups) + len(drawn.times.sums) for drawn in ranks)
    if not ranks or boxes > _MOST:
        raise ValueError(
            f"expected 1 to {_MOST} groups and sums to draw, got {boxes} of {len(ranks)} ranks; "
            "take fewer ranks or segments"
        )
    last_s = max(
        max(
            [drawn.arrival_s, drawn.times.result_s]
            + [group.end_s for group in drawn.times.groups]
            + [one.end_s for one in drawn.times.sums]
        )
        for drawn in ranks
    )
    margin_s = 0.08 * (last_s - queued_s) or 0.1
    begin_s, end_s = queued_s - margin_s, last_s + margin_s
    figure = figures.figure(13, 1.7 + 1.5 * len(ranks))
    panel = figure.subplots()
    panel.set_xlim(begin_s, end_s)
    for row, drawn in enumerate(ranks):
        _draw_host(panel, row, queued_s)
        _draw_caller(panel, row, drawn)
        _draw_streams(panel, row, drawn)
        _draw_events(panel, row, drawn)
    if len(ranks) > 1:
        _mark_last_arrival(panel, ranks)
    _label_lanes(panel, ranks)
    panel.set_xlabel("time of a simple model, nothing measured [s]")
    if title:
        panel.set_title(title, loc="left")
    panel.spines[["top", "right", "left"]].set_visible(False)
    _add_legend(figure)
    figures.save(figure, path)


def _y(row: int, lane: int) -> float:
    """The middle of a lane; downwards."""
    return row * _RANK + lane


def _box(
    panel: Axes, at: tuple[int, int], begin_s: float, end_s: float, colour: str, *, text: str = ""
) -> None:
    y = _y(*at)
    panel.broken_barh(
        [(begin_s, end_s - begin_s)],
        (y - _HEIGHT / 2, _HEIGHT),
        facecolors=colour,
        edgecolor="white",
        linewidth=0.8,
    )
    panel.text(
        (begin_s + end_s) / 2,
        y,
        text,
        ha="center",
        va="center_baseline",
        fontsize=_SMALL,
        linespacing=0.95,
        color="black" if colour == _CALLERS else "white",
        clip_on=True,
    )


def _draw_host(panel: Axes, row: int, queued_s: float) -> None:
    begin_s, end_s = panel.get_xlim()
    _box(panel, (row, _HOST), begin_s, queued_s, "0.25", text="queues all")
    panel.annotate(
        "",
        (end_s, _y(row, _HOST)),
        (queued_s, _y(row, _HOST)),
        arrowprops={"arrowstyle": "->", "color": "0.5", "linewidth": 0.8},
    )
    panel.text(
        queued_s,
        _y(row, _HOST) - 0.08,
        "  goes on, waits for no GPU",
        fontsize=_SMALL,
        color="0.4",
        va="bottom",
    )


def _draw_caller(panel: Axes, row: int, drawn: Drawn) -> None:
    begin_s, end_s = panel.get_xlim()
    _box(panel, (row, _CALLER), begin_s, drawn.arrival_s, _CALLERS, text="backward")
    _box(panel, (row, _CALLER), drawn.times.result_s, end_s, _CALLERS, text="goes on")


def _draw_streams(panel: Axes, row: int, drawn: Drawn) -> None:
    labelled = len(drawn.times.groups) <= _LABELLED
    for group in drawn.times.groups:
        panel.broken_barh(
            [(group.start_s, group.end_s - group.start_s)],
            (_y(row, _MESSAGES) - _HEIGHT / 2, _HEIGHT),
            facecolors=_WAITS,
            edgecolor=figures.BLUE,
            hatch="////",
            linewidth=0.4,
        )
        for moved in _moves(group):
            begin_s, end_s = moved[0].begin_s, max(one.end_s for one in moved)
            text = _messages_text(moved) if labelled else ""
            _box(panel, (row, _MESSAGES), begin_s, end_s, figures.BLUE, text=text)
    for one in drawn.times.sums:
        _box(panel, (row, _SUMS), one.start_s, one.end_s, figures.VERMILION)
        if labelled:
            _label_sums(panel, row, one, drawn.stages[one.stage])
    panel.plot(
        drawn.times.result_s,
        _y(row, _SUMS),
        marker="D",
        color="black",
        markerfacecolor="white",
        markersize=6,
        linestyle="",
        zorder=5,
        gid=f"result {drawn.rank}",
    )


def _moves(group: GroupTime) -> list[list[MessageTime]]:
    """The group's messages, those that move at once together, in order of time."""
    moves: list[list[MessageTime]] = []
    for one in sorted(group.messages, key=lambda one: (one.begin_s, not one.sends)):
        if moves and one.begin_s < max(before.end_s for before in moves[-1]):
            moves[-1].append(one)
        else:
            moves.append([one])
    return moves


def _messages_text(moved: Sequence[MessageTime]) -> str:
    if len(moved) > 2:
        return f"{len(moved)} messages"
    return "\n".join(
        f"{span(one.transfer)} {'to' if one.sends else 'from'} {one.transfer.peer}" for one in moved
    )


def _label_sums(panel: Axes, row: int, one: SumTime, stage: Stage) -> None:
    copies = all(not each.held for each in stage.sums)
    panel.text(
        (one.start_s + one.end_s) / 2,
        _y(row, _SUMS) + _HEIGHT / 2 + 0.04,
        ("copy " if copies else "") + ",".join(map(span, stage.sums)),
        ha="center",
        va="top",
        fontsize=_SMALL,
        color=figures.VERMILION,
    )


def _draw_events(panel: Axes, row: int, drawn: Drawn) -> None:
    below, above = _HEIGHT / 2, -_HEIGHT / 2
    groups = {one.stage: one for one in drawn.times.groups}
    sums = {one.stage: one for one in drawn.times.sums}
    arrival = drawn.arrival_s, _y(row, _CALLER) + below
    awaited = waits(drawn.stages)
    for group, stage in awaited.items():
        start_s = groups[group].start_s
        if stage in sums:
            begin = sums[stage].end_s, _y(row, _SUMS) + above
            end = start_s, _y(row, _MESSAGES) + below
        else:
            begin, end = arrival, (start_s, _y(row, _MESSAGES) + above)
        _arrow(panel, begin, end, f"rank {drawn.rank}: sums {stage} -> group {group}")
    for stage, one in sums.items():
        end = one.start_s, _y(row, _SUMS) + above
        if stage in groups:
            begin = groups[stage].end_s, _y(row, _MESSAGES) + below
            _arrow(panel, begin, end, f"rank {drawn.rank}: group {stage} -> sums {stage}")
        if one.start_s <= drawn.arrival_s:
            _arrow(panel, arrival, end, f"rank {drawn.rank}: arrival -> sums {stage}")
    result_s = drawn.times.result_s
    end = result_s, _y(row, _CALLER) + below
    _arrow(panel, (result_s, _y(row, _SUMS)), end, f"rank {drawn.rank}: result", dashed=True)


def _arrow(
    panel: Axes,
    begin: tuple[float, float],
    end: tuple[float, float],
    what: str,
    *,
    dashed: bool = False,
) -> None:
    from matplotlib.patches import FancyArrowPatch

    arrow = FancyArrowPatch(
        begin,
        end,
        arrowstyle="-|>",
        mutation_scale=7,
        shrinkA=0,
        shrinkB=0,
        linewidth=0.8,
        linestyle=(0, (2, 1.5)) if dashed else "-",
        color="black",
        zorder=4,
    )
    arrow.set_gid(what)
    panel.add_patch(arrow)


def _mark_last_arrival(panel: Axes, ranks: Sequence[Drawn]) -> None:
    last = max(ranks, key=lambda drawn: drawn.arrival_s)
    over = sum(
        one.end_s <= last.arrival_s
        for drawn in ranks
        for one in drawn.times.sums
        if drawn is not last
    )
    bottom = _y(len(ranks) - 1, _SUMS) + 0.5
    panel.vlines(last.arrival_s, -0.9, bottom, color="0.3", linewidth=1, zorder=0)
    panel.text(
        last.arrival_s,
        -0.95,
        f"rank {last.rank} arrives last; {over} stages are summed already",
        ha="center",
        va="bottom",
        fontsize=8,
        color="0.2",
    )


def _label_lanes(panel: Axes, ranks: Sequence[Drawn]) -> None:
    panel.set_yticks(
        [_y(row, lane) for row in range(len(ranks)) for lane in range(4)],
        [
            f"rank {drawn.rank}   {name}" if lane == 0 else name
            for drawn in ranks
            for lane, name in enumerate(_LANES)
        ],
    )
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(_y(len(ranks) - 1, _SUMS) + 1.0, -1.6)


def _add_legend(figure: Figure) -> None:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: dict[str, Artist] = {
        "on stream messages: messages move": Patch(color=figures.BLUE),
        "the group waits for a peer, on the GPU": Patch(
            facecolor=_WAITS, edgecolor=figures.BLUE, hatch="////", linewidth=0.4
        ),
        "on stream sums": Patch(color=figures.VERMILION),
        "event: what it points at waits for it": Line2D(
            [], [], color="black", marker=">", markersize=5
        ),
        "the rank has its result": Line2D(
            [], [], marker="D", color="black", markerfacecolor="white", linestyle=""
        ),
    }
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        columnspacing=1.4,
    )
