"""Picture: stream programs laid out in time, a row for the host and for every stream of a rank.

rank 0  host       [queues] ------------------------>   goes on at once
        caller's   ...backward]              [goes on   the stream that makes and takes the tensor
        messages              [group 1][group 2]        hatched: waits for a peer, on the GPU;
                                                        a row for each lane
        sums                           [1]     [2]<>    <>: the result is at home

Arrows are events: to a group from the sums, the arrival, or another lane's group that it waits for,
to sums from their groups, and from the result to the caller; grey where something else held up what
waits. Times are those of the model in patallreduce/gpu/times.py: nothing is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patallreduce.gpu.stages import SUMS, Item, Stage, waits
from patallreduce.gpu.tables import lane_letter, span
from patallreduce.gpu.times import GroupTime, MessageTime, RankTimes, SumTime
from patallreduce.pictures import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HOST, _CALLER, _MESSAGES = range(3)  # then a row for each further lane, then sums
_GAP = 0.7  # between ranks, in rows
_HEIGHT = 0.7  # of a box, in rows
_MOST = 3000  # boxes: in a picture nobody can tell more of them apart
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
    lanes: int = 1

    @property
    def sums_row(self) -> int:
        """The number of its last row."""
        return _MESSAGES + self.lanes

    @property
    def rows(self) -> list[str]:
        """Their names, from top to bottom."""
        letters = [lane_letter(lane, self.lanes) for lane in range(self.lanes)]
        return ["host", "caller's", *(f"messages {letter}".strip() for letter in letters), "sums"]


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
    height = ranks[0].sums_row + 1 + _GAP  # of a rank, in rows
    figure = figures.figure(13, 1.7 + 0.32 * height * len(ranks))
    panel = figure.subplots()
    panel.set_xlim(begin_s, end_s)
    panel.set_ylim(len(ranks) * height - _GAP, -1.6)
    for number, drawn in enumerate(ranks):
        top = number * height
        _draw_host(panel, top, queued_s)
        _draw_caller(panel, top, drawn)
        _draw_streams(panel, top, drawn)
        _draw_events(panel, top, drawn)
    if len(ranks) > 1:
        _mark_last_arrival(panel, ranks)
    _label_rows(panel, ranks, height)
    panel.set_xlabel("time of a simple model, nothing measured [s]")
    if title:
        panel.set_title(title, loc="left")
    panel.spines[["top", "right", "left"]].set_visible(False)
    _add_legend(figure)
    figures.save(figure, path)


def _box(
    panel: Axes, y: float, begin_s: float, end_s: float, colour: str, *, text: str = ""
) -> None:
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


def _draw_host(panel: Axes, top: float, queued_s: float) -> None:
    begin_s, end_s = panel.get_xlim()
    _box(panel, top + _HOST, begin_s, queued_s, "0.25", text="queues all")
    panel.annotate(
        "",
        (end_s, top + _HOST),
        (queued_s, top + _HOST),
        arrowprops={"arrowstyle": "->", "color": "0.5", "linewidth": 0.8},
    )
    panel.text(
        queued_s,
        top + _HOST - 0.08,
        "  goes on, waits for no GPU",
        fontsize=_SMALL,
        color="0.4",
        va="bottom",
    )


def _draw_caller(panel: Axes, top: float, drawn: Drawn) -> None:
    begin_s, end_s = panel.get_xlim()
    _box(panel, top + _CALLER, begin_s, drawn.arrival_s, _CALLERS, text="backward")
    _box(panel, top + _CALLER, drawn.times.result_s, end_s, _CALLERS, text="goes on")


def _draw_streams(panel: Axes, top: float, drawn: Drawn) -> None:
    labelled = len(drawn.times.groups) <= _LABELLED
    sums_y = top + drawn.sums_row
    for group in drawn.times.groups:
        y = top + _MESSAGES + group.item.lane
        panel.broken_barh(
            [(group.start_s, group.end_s - group.start_s)],
            (y - _HEIGHT / 2, _HEIGHT),
            facecolors=_WAITS,
            edgecolor=figures.BLUE,
            hatch="////",
            linewidth=0.4,
        )
        for moved in _moves(group):
            begin_s, end_s = moved[0].begin_s, max(one.end_s for one in moved)
            text = _messages_text(moved) if labelled else ""
            _box(panel, y, begin_s, end_s, figures.BLUE, text=text)
    for one in drawn.times.sums:
        _box(panel, sums_y, one.start_s, one.end_s, figures.VERMILION)
        if labelled:
            _label_sums(panel, sums_y, one, drawn.stages[one.stage])
    panel.plot(
        drawn.times.result_s,
        sums_y,
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


def _label_sums(panel: Axes, y: float, one: SumTime, stage: Stage) -> None:
    copies = all(not each.held for each in stage.sums)
    panel.text(
        (one.start_s + one.end_s) / 2,
        y + _HEIGHT / 2 + 0.04,
        ("copy " if copies else "") + ",".join(map(span, stage.sums)),
        ha="center",
        va="top",
        fontsize=_SMALL,
        color=figures.VERMILION,
    )


def _draw_events(panel: Axes, top: float, drawn: Drawn) -> None:
    half = _HEIGHT / 2
    boxes: dict[Item, tuple[float, float]] = {
        **{one.item: (one.start_s, one.end_s) for one in drawn.times.groups},
        **{Item(SUMS, one.stage): (one.start_s, one.end_s) for one in drawn.times.sums},
    }
    arrival = drawn.arrival_s, top + _CALLER + half

    def y_of(item: Item) -> float:
        return top + (drawn.sums_row if item.lane == SUMS else _MESSAGES + item.lane)

    def name_of(item: Item) -> str:
        if item.lane == SUMS:
            return f"sums {item.stage}"
        return f"group {item.stage}{lane_letter(item.lane, drawn.lanes)}"

    for waiter, awaited in waits(drawn.stages).items():
        for one in awaited:
            down = y_of(waiter) > y_of(one)
            begin = arrival
            if one in boxes:
                begin = boxes[one][1], y_of(one) + (half if down else -half)
            down = down or one not in boxes
            end = boxes[waiter][0], y_of(waiter) + (-half if down else half)
            what = f"rank {drawn.rank}: {name_of(one)} -> {name_of(waiter)}"
            _arrow(panel, begin, end, what, decides=begin[0] >= end[0])
    for item, (start_s, _) in boxes.items():
        if item.lane == SUMS and start_s <= drawn.arrival_s:
            what = f"rank {drawn.rank}: arrival -> {name_of(item)}"
            _arrow(panel, arrival, (start_s, y_of(item) - half), what)
    result = drawn.times.result_s, top + drawn.sums_row
    end = drawn.times.result_s, top + _CALLER + half
    _arrow(panel, result, end, f"rank {drawn.rank}: result", dashed=True)


def _arrow(
    panel: Axes,
    begin: tuple[float, float],
    end: tuple[float, float],
    what: str,
    *,
    dashed: bool = False,
    decides: bool = True,
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
        color="black" if decides else "0.65",
        zorder=4 if decides else 3,
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
    bottom = panel.get_ylim()[0]
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


def _label_rows(panel: Axes, ranks: Sequence[Drawn], height: float) -> None:
    panel.set_yticks(
        [
            number * height + row
            for number, drawn in enumerate(ranks)
            for row in range(len(drawn.rows))
        ],
        [
            f"rank {drawn.rank}   {name}" if row == 0 else name
            for drawn in ranks
            for row, name in enumerate(drawn.rows)
        ],
    )
    panel.tick_params(axis="y", length=0)


def _add_legend(figure: Figure) -> None:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: dict[str, Artist] = {
        "on a stream of messages: they move": Patch(color=figures.BLUE),
        "the group waits for a peer, on the GPU": Patch(
            facecolor=_WAITS, edgecolor=figures.BLUE, hatch="////", linewidth=0.4
        ),
        "on stream sums": Patch(color=figures.VERMILION),
        "event (grey: held nothing up)": Line2D([], [], color="black", marker=">", markersize=5),
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
