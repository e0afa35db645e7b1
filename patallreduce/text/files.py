"""Text and JSON of files that users give: whatever is wrong in them is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MOST_DIGITS = 20  # 64 bits, with a sign


def read_text(path: str | Path) -> str:
    """What a file has in it.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no text in UTF-8; the message names the file.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got {error}") from None


def parse_json(text: str) -> Any:
    """As `json.loads`; whatever is wrong is a JSONDecodeError, also numbers of many digits."""
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise json.JSONDecodeError("fewer brackets within each other", text, 0) from None
    except OverflowError as error:
        raise json.JSONDecodeError(str(error), text, 0) from None


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise OverflowError(f"a number of {len(digits)} digits")
    return int(digits)
