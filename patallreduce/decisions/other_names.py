"""What other libraries call the algorithms: other_names.json."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def other_names(library: str) -> dict[str, Any]:
    """By collective: of "open_mpi" its numbers and names with ours, of "nccl" ours with its."""
    text = (files("patallreduce.decisions") / "other_names.json").read_text(encoding="utf-8")
    names: dict[str, Any] = json.loads(text)[library]
    return names
