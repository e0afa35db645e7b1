"""Iterations in a file: one JSON line each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from patallreduce.records.iterations import Iteration
from patallreduce.text.files import parse_json, read_text


def save_iterations(path: str | Path, iterations: Iterable[Iteration]) -> None:
    """Write one JSON line per iteration; what is unknown is null, as JSON has no NaN."""
    with Path(path).open("w", encoding="utf-8") as file:
        for iteration in iterations:
            file.write(json.dumps(_nan_to_none(iteration.to_dict()), allow_nan=False) + "\n")


def load_iterations(path: str | Path) -> list[Iteration]:
    """Read what `save_iterations` wrote, in the order of the file.

    Raises:
        OSError: The file cannot be read.
        ValueError: A line is not a record of an iteration; names file, line and what is wrong.
    """
    iterations = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            iterations.append(Iteration.from_dict(parse_json(line)))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: expected JSON: {error}") from error
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return iterations


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nan_to_none(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_nan_to_none(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
