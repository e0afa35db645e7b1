"""Decision maps as pictures: which method, and above it by how much the choice was wrong."""

from __future__ import annotations

from pathlib import Path

from matplotlib import colormaps
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patches import Patch

from benchmarks.lab.plan import Record
from patallreduce.decisions.functions import Decide, DecisionMap, Point, fastest
from patallreduce.decisions.quadtree import quadtree
from patallreduce.decisions.times import Method
from patallreduce.decisions.tree_by_gain import c45
from patallreduce.pictures.figures import figure, save
from patallreduce.text.units import bytes_text

from .functions import map_of, point_of

LEVELS = (0.0, 0.05, 0.1, 0.25, 0.5, 10.0)  # of penalties: TUNE07, figure 6.8
SHADES = ("#ffffff", "#fee8a8", "#fdae61", "#d7301f", "#7f0000")
SHOWN = ("this package's model", "LogGP", "Open MPI, fixed")


def draw(
    collective: str, records: list[Record], predicted: dict[str, dict[Point, str]], path: Path
) -> None:
    """The measured map, a tree and a quadtree made from half of it, and what was predicted."""
    of = map_of(records)
    made_from = map_of([record for record in records if not record["held_out"]])
    decisions: dict[str, Decide] = {
        "measured": lambda ranks, size: fastest(of[ranks, size]),
        "C4.5 -m 2 -c 25": c45(made_from),
        "quadtree, depth 3": quadtree(made_from, most_depth=3),
    }
    for name in SHOWN:
        decisions[name] = _algorithm_of(predicted[name])
    ways_s = {point_of(r): r["seconds"] for r in records}
    ranks, sizes = (sorted({point[axis] for point in of}) for axis in (0, 1))
    names = sorted({decide(*point).algorithm for decide in decisions.values() for point in of})
    colours = [colormaps["tab20"](n) for n in range(len(names))]
    picture = figure(3.1 * len(decisions), 6.2)
    panels = picture.subplots(2, len(decisions), sharex=True, sharey=True)
    for column, (title, decide) in enumerate(decisions.items()):
        chosen = [[names.index(decide(p, m).algorithm) for m in sizes] for p in ranks]
        lost = [
            [_lost(of, ways_s, predicted.get(title), decide, (p, m)) for m in sizes] for p in ranks
        ]
        panels[0][column].pcolormesh(
            chosen, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(names) - 0.5
        )
        shades = panels[1][column].pcolormesh(
            lost, cmap=ListedColormap(SHADES), norm=BoundaryNorm(LEVELS, len(SHADES))
        )
        panels[0][column].set_title(title, fontsize=10)
    for panel in panels[1]:
        panel.set_xticks(
            [n + 0.5 for n in range(0, len(sizes), 3)],
            [bytes_text(size) for size in sizes[::3]],
            fontsize=8,
        )
        panel.set_xlabel("bytes")
    for row, what in zip(panels, ("which algorithm", "what it takes longer"), strict=True):
        row[0].set_yticks([n + 0.5 for n in range(len(ranks))], [str(p) for p in ranks])
        row[0].set_ylabel(f"ranks: {what}")
    bar = picture.colorbar(shades, ax=list(panels[1]), ticks=LEVELS, spacing="uniform", aspect=12)
    bar.ax.set_yticklabels(["0", "5 %", "10 %", "25 %", "50 %", "more"])
    patches = [Patch(color=c, label=name) for c, name in zip(colours, names, strict=True)]
    picture.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=9)
    picture.suptitle(f"{collective}: decision maps, and their penalties")
    save(picture, path)


def _algorithm_of(chosen: dict[Point, str]) -> Decide:
    return lambda ranks, size: Method(chosen[ranks, size].rpartition("/")[0])


def _lost(
    of: DecisionMap,
    ways_s: dict[Point, dict[str, float]],
    predicted: dict[Point, str] | None,
    decide: Decide,
    point: Point,
) -> float:
    if predicted is not None:
        return ways_s[point][predicted[point]] / min(ways_s[point].values()) - 1
    times_s = of[point]
    return times_s.get(decide(*point), max(times_s.values())) / min(times_s.values()) - 1
