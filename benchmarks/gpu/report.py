"""The GPU all-reduce benchmark for a reader: nccl-tests' columns, a late-rank table, a picture."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.allreduce.report import describe_size
from benchmarks.lab.plan import Record
from patallreduce.text.table import text_table

NCCL_TESTS = [
    "algorithm",
    "ranks",
    "size\n(B)",
    "count\n(elements)",
    "type",
    "redop",
    "time\n(us)",
    "algbw\n(GB/s)",
    "busbw\n(GB/s)",
    "#wrong\n",
    "out of place\n",
    "time/nccl\n(median)",
]
LATE = [
    "algorithm",
    "ranks",
    "size",
    "late\n",
    "after\n(ms)",
    "after/nccl\n(median)",
    "M*beta\n(ms)",
    "late rank's own\n(ms)",
    "average elapsed\n(ms)",
    "#wrong\n",
]
LEGEND = (
    "Medians; in place. time: average elapsed, from a rank's own arrival on its stream until its\n"
    "result is there, per call. after: from the last arrival until every rank has the result.\n"
    "busbw: algbw * 2(P-1)/P. nccl: ncclAllReduce, same run, A B A B."
)


def print_report(records: list[Record]) -> None:
    """Print the balanced cases as nccl-tests does, and the late ones beside NCCL."""
    if balanced := [r for r in records if r["late_rank"] is None]:
        print("\n" + text_table(NCCL_TESTS, [_balanced_row(r) for r in balanced], left=[0]))
    if late := [r for r in records if r["late_rank"] is not None]:
        print("\n" + text_table(LATE, [_late_row(r) for r in late], left=[0]))
    print(LEGEND)


def _balanced_row(record: Record) -> list[str]:
    return [
        record["algorithm"],
        str(record["ranks"]),
        str(record["bytes"]),
        str(record["count"]),
        record["dtype"],
        record["redop"],
        f"{record['average_elapsed_s'] * 1e6:.1f}",
        f"{record['algbw_bytes_s'] / 1e9:.3f}",
        f"{record['busbw_bytes_s'] / 1e9:.3f}",
        str(record["wrong"]),
        "n/a",
        _ratio(record),
    ]


def _late_row(record: Record) -> list[str]:
    return [
        record["algorithm"],
        str(record["ranks"]),
        describe_size(record["bytes"]),
        describe_late(record),
        f"{record['after_s'] * 1e3:.2f}",
        _ratio(record),
        f"{record['Mbeta_s'] * 1e3:.2f}" if record["Mbeta_s"] else "",
        f"{record['late_elapsed_s'] * 1e3:.2f}",
        f"{record['average_elapsed_s'] * 1e3:.2f}",
        str(record["wrong"]),
    ]


def _ratio(record: Record) -> str:
    return "" if record["ratio_to_nccl"] is None else f"{record['ratio_to_nccl']:.2f}"


def describe_late(record: Record) -> str:
    """Who is late, by how much, and by what."""
    delays = [(rank, delay) for rank, delay in enumerate(record["arrivals_s"]) if delay > 0]
    named = ", ".join(f"rank {rank} {delay:g} s" for rank, delay in delays)
    return f"{named} ({record['delay_by']})" if delays else "all together"


def draw(records: list[Record], path: Path) -> None:
    """Draw one panel per number of ranks and pattern: a dot per size and rival; NCCL black."""
    from patallreduce.pictures.figures import figure, save

    def panel_of(record: Record) -> tuple[int, str]:
        return record["ranks"], describe_late(record)

    panels = [(key, list(group)) for key, group in groupby(sorted(records, key=panel_of), panel_of)]
    picture = figure(9, 3.2 * len(panels))
    rows = picture.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, ((ranks, late), inside) in zip(rows, panels, strict=True):
        balanced = inside[0]["late_rank"] is None
        measure = "average_elapsed_s" if balanced else "after_s"
        axes.set_title(f"{ranks} ranks on one GPU, {late}")
        axes.set_ylabel("average elapsed, ms" if balanced else "after the last arrival, ms")
        _dots(axes, inside, measure)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))  # beside, never over the data
    save(picture, path)


def _dots(axes: Any, records: list[Record], measure: str) -> None:
    names = list(dict.fromkeys(record["algorithm"] for record in records))
    sizes = sorted({record["bytes"] for record in records})
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        mine = {r["bytes"]: r for r in records if r["algorithm"] == name}
        places = [k - 0.4 + width * (i + 0.5) for k, size in enumerate(sizes) if size in mine]
        heights = [mine[size][measure] * 1e3 for size in sizes if size in mine]
        colour = "black" if name == "nccl" else f"C{i}"
        axes.plot(places, heights, "o", markersize=9, color=colour, label=name)
    for k, size in enumerate(sizes):
        yardstick = next((r["Mbeta_s"] for r in records if r["bytes"] == size), None)
        if yardstick:
            label = "M*beta, point to point" if k == 0 else None
            axes.hlines(
                yardstick * 1e3, k - 0.4, k + 0.4, colors="grey", linestyles="--", label=label
            )
    axes.set_xticks(range(len(sizes)), [describe_size(size) for size in sizes])
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_yscale("log")
    axes.grid(axis="y", which="both", alpha=0.3)
