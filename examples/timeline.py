"""Draw what every rank did and when: computing, waiting for the last rank, communicating.

    python examples/timeline.py "plain DDP=out/plain" "patallreduce=out/pat" --out timeline.png

One panel per run, one lane per rank, one time axis for all, so that runs compare at a glance. Of
each run the stretch of iterations is drawn whose length is nearest to the median stretch.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from records import FIRST_STEADY_ITERATION, Record, Run, read_run

from patallreduce.pictures.timeline import add_legend, draw_lanes
from patallreduce.records.activities import Interval, lanes


def intervals(ranks: Sequence[Record]) -> list[list[Interval]]:
    """Split one iteration of all ranks into what each did, by rank; empty ones are left out."""
    in_all_reduce = lanes(
        [record.start_s for record in ranks],
        [record.arrival_s for record in ranks],
        [record.finish_s for record in ranks],
    )
    for lane, record in zip(in_all_reduce, ranks, strict=True):
        if record.end_s > record.finish_s:
            lane.append(Interval("computation", record.finish_s, record.end_s))  # the optimizer
    return in_all_reduce


def typical_stretch(run: Run, iterations: int) -> Run:
    """Return the consecutive steady iterations whose length is nearest to the median length.

    Raises:
        ValueError: The run has fewer steady iterations than asked for.
    """
    steady = run[FIRST_STEADY_ITERATION:]
    stretches = [
        steady[first : first + iterations] for first in range(len(steady) - iterations + 1)
    ]
    if iterations < 1 or not stretches:
        raise ValueError(f"{iterations} iterations to draw, but the run has {len(steady)} steady")
    median_s = statistics.median(map(length_s, stretches))
    return min(stretches, key=lambda stretch: abs(length_s(stretch) - median_s))


def length_s(stretch: Run) -> float:
    """Return the time from the first start to the last end."""
    return max(r.end_s for r in stretch[-1]) - min(r.start_s for r in stretch[0])


def draw(
    runs: dict[str, Run],
    out: Path,
    *,
    title: str,
    iterations: int = 4,
    late_rank: int | None = None,
) -> None:
    """Draw a panel per named run and write the picture to `out`, its format by the suffix.

    `late_rank` is marked as such. matplotlib is needed: `pip install patallreduce[examples]`.
    """
    from matplotlib import ticker
    from matplotlib.figure import Figure

    stretches = {name: typical_stretch(run, iterations) for name, run in runs.items()}
    longest_s = max(map(length_s, stretches.values()))
    ranks_drawn = sum(len(run[0]) for run in runs.values())
    figure = Figure(figsize=(11, 1.9 + 0.8 * len(runs) + 0.32 * ranks_drawn), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold")
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (name, stretch) in zip(panels, stretches.items(), strict=True):
        start_s = min(record.start_s for record in stretch[0])
        for ranks in stretch:
            starts_s = [record.start_s for record in ranks]
            draw_lanes(panel, intervals(ranks), starts_s, start_s)
        end_s = length_s(stretch)
        panel.axvline(end_s, color="black", linestyle="--", linewidth=1)
        panel.set_title(f"{name}: {iterations} training steps in {end_s:.3f} s", loc="left")
        names = [f"rank {r}" + " (late)" * (r == late_rank) for r in range(len(stretch[0]))]
        panel.set_yticks(range(len(names)), names)
        panel.invert_yaxis()
        panel.set_xlim(0, longest_s * 1.01)
        panel.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g} s"))
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("time (at each black mark a rank begins a training step)")
    add_legend(figure)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


def main() -> None:
    """Draw the runs named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="NAME=DIR", help="the --records of a run")
    parser.add_argument("--iterations", type=int, default=4, help="how many to draw")
    parser.add_argument("--late-rank", type=int, metavar="R", help="mark rank R as the late one")
    parser.add_argument("--title", default="What each rank did, and when")
    parser.add_argument("--out", type=Path, default=Path("out/timeline.png"))
    options = parser.parse_args()
    runs = {}
    for named in options.runs:
        name, separator, folder = named.partition("=")
        if not separator:
            parser.error(f"{named!r}: expected NAME=DIR")
        runs[name] = read_run(Path(folder))
    draw(
        runs,
        options.out,
        title=options.title,
        iterations=options.iterations,
        late_rank=options.late_rank,
    )
    print(options.out)


if __name__ == "__main__":
    main()
