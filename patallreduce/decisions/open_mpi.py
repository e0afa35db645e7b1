"""Reads the rules that Open MPI's `tuned` component goes by, to compare them with ours.

Both of its formats: the classic one, numbers in a fixed order with comments, and the JSON of
version 6. What no algorithm here stands for has no rule: its fixed decisions, trees of some given
fan-out, collectives that we have not got.

Source: Open MPI's documentation of `coll_tuned_dynamic_rules_filename`, section 11.4.2 of 6.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patallreduce.arguments import refused
from patallreduce.decisions.other_names import other_names
from patallreduce.decisions.rules import FileRule, Range, TuningFile
from patallreduce.decisions.times import Method
from patallreduce.text.files import parse_json, read_text

_VERSION_LINE = "rule-file-version-"
_MOST_DIGITS = 18
_FIELDS = ("algorithm", "fan-out", "segment size")  # of a classic rule, behind its message size


def read_open_mpi(path: str | Path) -> TuningFile:
    """Read a file of dynamic rules, of either format; as Open MPI does, JSON is tried first.

    Raises:
        OSError: It cannot be read.
        ValueError: It is neither, or cut off; the message names file and line, and what was
            expected.
    """
    text = read_text(path)
    machine = {"library": "Open MPI"}
    if text.lstrip().startswith("{"):
        try:
            rules = tuple(_json_rules(parse_json(text)))
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path}, line {error.lineno}: expected JSON of Open MPI's rules, got {error.msg}"
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{path}: expected Open MPI's rules: {what}") from None
        return TuningFile(machine, rules, str(path))
    numbers = _Numbers(text)
    try:
        return TuningFile(machine, tuple(_classic_rules(numbers)), str(path))
    except ValueError as error:
        raise ValueError(f"{path}, line {numbers.line}: {error}") from None


def _rules(
    collective: str,
    ranks: Range,
    nodes: Range,
    rows: Sequence[tuple[Range, object, int]],
    line: int = 0,
) -> Iterator[FileRule]:
    """Those of rows (bytes, algorithm, bytes of a segment) that an algorithm of ours stands for."""
    known = other_names("open_mpi").get(collective)
    if known is None:
        return
    ours_of = dict(known["algorithms"]) | dict(enumerate(ours for _, ours in known["algorithms"]))
    for message_bytes, told, segment_bytes in rows:
        if (ours := ours_of.get(told)) is not None:
            yield FileRule(
                known["collective"],
                ranks,
                nodes,
                message_bytes,
                beside_others=False,
                method=Method(ours, segment_bytes),
                line=line,
            )


class _Numbers:
    """The numbers of a classic file; what follows a # is a comment."""

    def __init__(self, text: str) -> None:
        self.line = 1
        self.version = 1
        self._lines = [line.partition("#")[0].split() for line in text.splitlines()]
        self._at = 0

    def take_version(self) -> None:
        """The first line may have it."""
        if self._lines and self._lines[0] and self._lines[0][0].startswith(_VERSION_LINE):
            self.version = self._whole(self._lines[0].pop(0).removeprefix(_VERSION_LINE), "version")

    def take(self, what: str) -> int:
        """The next; ValueError where there is none."""
        while self._at < len(self._lines) and not self._lines[self._at]:
            self._at += 1
        self.line = min(self._at + 1, max(len(self._lines), 1))
        if self._at == len(self._lines):
            raise ValueError(f"{what}: expected a whole number >= 0, got the end of the file")
        return self._whole(self._lines[self._at].pop(0), what)

    def rest_of_line(self) -> list[str]:
        """What is left of the line, which is taken."""
        row = self._lines[self._at] if self._at < len(self._lines) else []
        taken, row[:] = list(row), []
        return taken

    def _whole(self, text: str, what: str) -> int:
        if not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise ValueError(refused(what, "a whole number >= 0", text))
        return int(text)


def _classic_rules(numbers: _Numbers) -> Iterator[FileRule]:
    numbers.take_version()
    by_number = {of["number"]: name for name, of in other_names("open_mpi").items()}
    for _ in range(numbers.take("number of collectives")):
        collective = by_number.get(numbers.take("collective"), "")
        by_ranks = []
        for _ in range(numbers.take("number of communicator sizes")):
            ranks = numbers.take("communicator size")
            line = numbers.line
            rows = []
            for number in range(numbers.take("number of message sizes")):
                size = numbers.take("message size")
                if number == 0 and size != 0:
                    raise ValueError(refused("first message size", "0", size))
                method, _, segment_bytes = [numbers.take(field) for field in _FIELDS]
                if numbers.version > 1:
                    numbers.rest_of_line()  # the most requests at once
                rows.append((size, method, segment_bytes))
            by_ranks.append((ranks, rows, line))
        # Each counts from its size up to the next; the first for all below it, too.
        for number, (ranks, rows, line) in enumerate(by_ranks):
            following = by_ranks[number + 1][0] - 1 if number + 1 < len(by_ranks) else math.inf
            ends = [size - 1 for size, _, _ in rows[1:]] + [math.inf]
            told = [
                ((size, end), method, segment_bytes)
                for (size, method, segment_bytes), end in zip(rows, ends, strict=True)
            ]
            least = ranks if number > 0 else 1
            yield from _rules(collective, (least, following), (1, math.inf), told, line)


def _json_rules(entry: Any) -> Iterator[FileRule]:
    if entry["module"] != "tuned":
        raise ValueError(refused("module", "tuned", entry["module"]))
    spread = entry.get("comm_rank_distribution", "any")
    for collective, by_ranks in entry["collectives"].items():
        counted: list[tuple[str, Range]] = []
        for told in by_ranks:
            ranks = _range(told, "comm_size", 1)
            rows = [
                (_range(rule, "msg_size", 0), rule["alg"], _count(rule, "seg_size"))
                for rule in told["rules"]
            ]
            its_spread = told.get("comm_rank_distribution", spread)
            # Of those for a number of ranks the first counts alone, whatever sizes it is for.
            before = [of for other, of in counted if other in ("any", its_spread)]
            for left in _without(ranks, before):
                yield from _rules(collective, left, _nodes(its_spread, left), rows)
            counted.append((its_spread, ranks))


# The parts of a range of whole numbers that are in none of the others.
def _without(of: Range, others: Sequence[Range]) -> Iterator[Range]:
    first, last = of
    for other_first, other_last in sorted(others):
        if first < other_first:
            yield first, min(other_first - 1, last)
        if other_last >= last:
            return
        first = max(first, other_last + 1)
    yield first, last


def _range(told: dict[str, Any], name: str, least: int) -> Range:
    ends = (told.get(f"{name}_min", least), told.get(f"{name}_max", "inf"))
    first, last = (math.inf if str(end).lower().startswith("inf") else float(end) for end in ends)
    if not (first < math.inf and last >= least):  # NaN, too
        raise ValueError(refused(name, f"a range from {least} on", ends))
    return max(first, least), last


def _count(told: dict[str, Any], name: str) -> int:
    value = told.get(name, 0)
    if type(value) is not int or value < 0:
        raise ValueError(refused(name, "a whole number >= 0", value))
    return value


def _nodes(spread: str, ranks: Range) -> Range:
    # Rules have ranges of nodes for all their ranks: "one-per-node" is one only of a single P.
    if spread == "single-node":
        return (1, 1)
    if spread == "one-per-node":
        return (ranks[0], ranks[1])
    return (1, math.inf)
