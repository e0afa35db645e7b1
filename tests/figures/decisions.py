"""Decision functions on measured maps: what docs/tuning.md says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.figures.records import Figure, load

PAGE = "docs/tuning.md"
FILE = "decisions.jsonl"
MAP = "decision_map.jsonl"
ARRIVALS = "arrival_classes.jsonl"
WAYS = ("without", "with classes", "auto")
SHOWN = (
    "quadtree, depth 1", "quadtree, depth 2", "quadtree, exact", "C4.5 -m 2 -c 25",
    "C4.5 -m 4 -c 25", "C4.5 -m 10 -c 5", "C4.5, composite", "by penalty, 4 leaves",
    "by penalty, 8 leaves", "CART (scikit-learn)", "usual algorithm", "Open MPI, fixed",
    "this package's model", "Hockney", "LogGP", "PLogP",
)  # fmt: skip


def row_of(row: dict[str, Any]) -> str:
    """As the table of the page has it."""
    seen, unseen = row["made_from"], row["held_out"]
    numbers = [seen["mean"], unseen["mean"], unseen["ninety"], unseen["most"]]
    ns = "" if row["ns"] is None else f"{row['ns']:.0f} ns"
    cells = [row["function"], str(row["leaves"] or ""), *(f"{100 * n:.1f} %" for n in numbers), ns]
    return "| " + " | ".join(cells) + " |"


def figures() -> Iterator[Figure]:
    rows = load(FILE)
    for row in rows:
        if row.get("collective") == "broadcast" and row["function"] in SHOWN:
            yield Figure(PAGE, row_of(row), "mean", FILE)
    [model] = (r for r in rows if r.get("collective") == "all_reduce" and "model" in r["function"])
    unseen = model["held_out"]
    text = f"loses {100 * unseen['mean']:.1f} % on the mean where they are held out"
    yield Figure(PAGE, text, "mean", FILE)
    yield Figure(PAGE, f"{100 * unseen['most']:.1f} % at the most", "most", FILE)
    table = rows[-1]
    yield Figure(PAGE, f"{table['ns']:.0f} ns in a table of {table['leaves']} rules", "", FILE)
    points = [record for record in load(MAP) if record.get("collective") == "broadcast"]
    seen = sum(not record["held_out"] for record in points)
    yield Figure(PAGE, f"{seen} points", "", MAP)
    for record in load(ARRIVALS):
        means = [*(record["mean"][way] for way in WAYS), record["auto_last"]["mean"]]
        numbers = [f"{100 * mean:.1f} %" for mean in means]
        name = (
            f"| {record['trace']}, {record['ranks']} ranks | {record['transfer_in_spreads']:g} | "
        )
        yield Figure(PAGE, name + " | ".join(numbers) + " |", "mean", ARRIVALS)
