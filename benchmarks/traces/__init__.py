"""Real arrival patterns: reads the traces beside this file (README.md says where they are from)."""

from __future__ import annotations

import collections
import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
FRACTIONS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Iteration:
    """One iteration of all ranks; every time counts from its start."""

    arrivals_s: list[float]
    progress_s: dict[float, list[float]]

    @property
    def last_rank(self) -> int:
        """Who arrived last."""
        return self.arrivals_s.index(max(self.arrivals_s))

    @property
    def spread_s(self) -> float:
        """Last minus first arrival."""
        return max(self.arrivals_s) - min(self.arrivals_s)


def names(folder: Path = FOLDER) -> list[str]:
    """List the traces in `folder`."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def read(name: str, folder: Path = FOLDER) -> dict[int, list[Iteration]]:
    """Read a trace: {stage: iterations in order}, each stage a job of its own."""
    stages: dict[int, list[tuple[int, Iteration]]] = collections.defaultdict(list)
    for line in (folder / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        progress_s = {fraction: row["progress_s"][str(fraction)] for fraction in FRACTIONS}
        stages[row["stage"]].append((row["step"], Iteration(row["arrival_s"], progress_s)))
    return {
        stage: [iteration for _, iteration in sorted(rows, key=lambda row: row[0])]
        for stage, rows in sorted(stages.items())
    }
