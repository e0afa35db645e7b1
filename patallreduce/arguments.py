"""What users give, checked before anything is sent.

An error names the argument, what was expected, what came, and on which rank.
"""

from __future__ import annotations

import datetime
import difflib
import operator
import reprlib
from collections.abc import Iterable, Mapping, Set
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def refused(name: str, expected: str, got: object, rank: int | None = None) -> str:
    """The text of an error.

    Args:
        name: Of the argument.
        expected: Of what kind or range it has to be.
        got: Its value.
        rank: Which got it; None: ranks are not known, or matter nothing.
    """
    where = "" if rank is None else f" on rank {rank}"
    return f"{name}: expected {expected}, got {_SHORT.repr(got)}{where}"


def number(name: str, value: Any, rank: int | None = None) -> float:
    """A number as a float; TypeError for what is none: texts, truths and time spans, too."""
    if isinstance(value, datetime.timedelta):
        raise TypeError(refused(name, "a number of seconds (its total_seconds())", value, rank))
    try:
        if not isinstance(value, bool | str) and hasattr(value, "__float__"):
            return float(value)
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors of several elements
        pass
    raise TypeError(refused(name, "a number", value, rank))


def numbers(name: str, values: Any, rank: int | None = None) -> list[float]:
    """A sequence of numbers as floats; TypeError names the one that is none."""
    ordered = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping | Set)
    try:
        listed = list(values) if ordered else None
    except TypeError:  # arrays and tensors without a dimension
        listed = None
    if listed is None:
        raise TypeError(refused(name, "a sequence of numbers", values, rank))
    return [number(f"{name}[{i}]", value, rank) for i, value in enumerate(listed)]


def whole(name: str, value: Any, rank: int | None = None) -> int:
    """An integer; TypeError for what is none: True and 2.0, too."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(refused(name, "an integer", value, rank))


def flag(name: str, value: Any, rank: int | None = None) -> bool:
    """True or False; TypeError for all else: the text "no" would count as true."""
    if not isinstance(value, bool):
        raise TypeError(refused(name, "True or False", value, rank))
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: the known one that was probably meant."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
