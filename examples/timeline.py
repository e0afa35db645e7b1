"""Draw what every rank did and when: computing, waiting for the last rank, communicating.

    python examples/timeline.py "plain DDP=out/plain" "patallreduce=out/pat" --out timeline.png

One panel per run, one lane per rank, one time axis for all, so that runs compare at a glance. Of
each run the stretch of iterations is drawn whose length is nearest to the median stretch.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from records import FIRST_STEADY_ITERATION, Record, Run, read_run

Activity = Literal["computation", "waiting", "communication"]

# Blue, yellow and vermilion of Okabe and Ito's palette: told apart by colour-blind readers, and by
# lightness alone in a grey print.
COLOURS: dict[Activity, str] = {
    "computation": "#0072B2",
    "waiting": "#F0E442",
    "communication": "#D55E00",
}
MEANINGS: dict[Activity, str] = {
    "computation": "computing",
    "waiting": "waiting for the last rank's gradients",
    "communication": "communicating after they are there",
}


@dataclass(frozen=True)
class Interval:
    """What a rank did from when to when, in seconds of the records' clock."""

    activity: Activity
    start_s: float
    end_s: float


def intervals(ranks: Sequence[Record]) -> list[list[Interval]]:
    """Split one iteration of all ranks into what each did, by rank; empty intervals are left out.

    A rank whose gradients are ready waits until the last rank's are: nobody can have the sum
    before. (A good all-reduce uses that time to sum what is there.) The rest is communication.
    """
    last_arrival_s = max(record.arrival_s for record in ranks)
    lanes = []
    for record in ranks:
        # Clamped: a rank may note the end of its all-reduce before the last rank's clock reading.
        waited_s = min(last_arrival_s, record.finish_s)
        lane = [
            Interval("computation", record.start_s, record.arrival_s),
            Interval("waiting", record.arrival_s, waited_s),
            Interval("communication", waited_s, record.finish_s),
            Interval("computation", record.finish_s, record.end_s),  # the optimizer
        ]
        lanes.append([interval for interval in lane if interval.end_s > interval.start_s])
    return lanes


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
    from matplotlib.patches import Patch

    stretches = {name: typical_stretch(run, iterations) for name, run in runs.items()}
    longest_s = max(map(length_s, stretches.values()))
    lanes = sum(len(run[0]) for run in runs.values())
    figure = Figure(figsize=(11, 1.9 + 0.8 * len(runs) + 0.32 * lanes), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold")
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (name, stretch) in zip(panels, stretches.items(), strict=True):
        start_s = min(record.start_s for record in stretch[0])
        for ranks in stretch:
            for rank, lane in enumerate(intervals(ranks)):
                panel.broken_barh(
                    [(i.start_s - start_s, i.end_s - i.start_s) for i in lane],
                    (rank - 0.4, 0.8),
                    facecolors=[COLOURS[i.activity] for i in lane],
                )
                # Where the lane's iteration begins.
                panel.vlines(ranks[rank].start_s - start_s, rank - 0.4, rank + 0.4, color="black")
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
    figure.legend(
        handles=[Patch(color=COLOURS[a], label=MEANINGS[a]) for a in COLOURS],
        loc="outside lower center",
        ncols=len(COLOURS),
        frameon=False,
    )
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
