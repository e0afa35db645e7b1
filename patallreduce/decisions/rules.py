"""Rules, and the tuning file that keeps them: JSON, one rule a line.

The first rule that matches counts. A range has both its ends in it; "inf" has no end. The schema is
in `tuning.schema.json`, and every error names the file and the line.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patallreduce import _core
from patallreduce.arguments import nearest, refused
from patallreduce.decisions.times import Machine, Method
from patallreduce.pricing.schedules import algorithms
from patallreduce.text.files import parse_json, read_text

VERSION = 1
SCHEMA = "patallreduce/decisions/tuning.schema.json"  # in the repository
_ALONE, _SEVERAL = "one", "several"
_MEASURED, _MODEL = "measured", "model"
Range = tuple[float, float]


@dataclass(frozen=True)
class FileRule:
    """One line of a tuning file.

    Args:
        collective: As of `patallreduce.algorithms`.
        ranks: From, to.
        nodes: From, to.
        message_bytes: From, to.
        beside_others: Others like it are in flight.
        method: What to do.
        measured: It was found fastest; False: the model takes it for that.
        line: In the file.
    """

    collective: str
    ranks: Range
    nodes: Range
    message_bytes: Range
    beside_others: bool
    method: Method
    measured: bool = True
    line: int = field(default=0, compare=False)

    def matches(self, collective: str, ranks: int, nodes: int, *, beside_others: bool) -> bool:
        """Whether it is for such calls, of some size."""
        return (
            self.collective == collective
            and self.beside_others == beside_others
            and self.ranks[0] <= ranks <= self.ranks[1]
            and self.nodes[0] <= nodes <= self.nodes[1]
        )


@dataclass(frozen=True)
class TuningFile:
    """What a tuning file says.

    Args:
        machine: Where it was measured.
        rules: In the order of the file.
        path: Of the file.
    """

    machine: Machine
    rules: tuple[FileRule, ...]
    path: str = field(default="", compare=False)

    def rules_for(
        self, collective: str, ranks: int, nodes: int, *, beside_others: bool = False
    ) -> _core.Rules:
        """What counts among so many ranks, by size; of sizes without a rule nothing."""
        ours = [
            rule
            for rule in self.rules
            if rule.matches(collective, ranks, nodes, beside_others=beside_others)
        ]
        starts = {0.0, *(rule.message_bytes[0] for rule in ours)}
        starts |= {rule.message_bytes[1] + 1 for rule in ours if rule.message_bytes[1] < math.inf}
        borders = sorted(starts)
        told: list[tuple[int, str, int]] = []
        for first, following in zip(borders, [*borders[1:], math.inf], strict=True):
            found = next(
                (r for r in ours if r.message_bytes[0] <= first <= r.message_bytes[1]), None
            )
            most = _MOST if following == math.inf else int(following) - 1
            name, segment_bytes = found.method if found else ("", 0)
            if told and told[-1][1:] == (name, segment_bytes):
                told.pop()
            told.append((most, name, segment_bytes))
        return _core.Rules(told, collective)

    def never_matching(self) -> list[FileRule]:
        """Rules whose every size a rule above them takes."""
        found = []
        for number, rule in enumerate(self.rules):
            above = [r for r in self.rules[:number] if _covers(r, rule)]
            left = rule.message_bytes[0]
            for first, last in sorted(r.message_bytes for r in above):
                if first <= left:
                    left = max(left, last + 1)
            if left > rule.message_bytes[1] or left == math.inf:
                found.append(rule)
        return found

    def digest(self) -> str:
        """Equal for files that say the same."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:12]

    def text(self) -> str:
        """As the file has it."""
        head = {
            "$schema": SCHEMA,
            "patallreduce": "tuning",
            "version": VERSION,
            "machine": self.machine,
        }
        lines = json.dumps(head, indent=1)[:-2]
        rules = ",\n".join(f"  {json.dumps(_entry(rule))}" for rule in self.rules)
        return f'{lines},\n "rules": [\n{rules}\n ]\n}}\n'

    def save(self, path: str | Path) -> None:
        """Write it."""
        Path(path).write_text(self.text(), encoding="utf-8")


_MOST = 2**63


def _covers(above: FileRule, rule: FileRule) -> bool:
    def within(outer: Range, inner: Range) -> bool:
        return outer[0] <= inner[0] and inner[1] <= outer[1]

    return (
        (above.collective, above.beside_others) == (rule.collective, rule.beside_others)
        and within(above.ranks, rule.ranks)
        and within(above.nodes, rule.nodes)
    )


def _entry(rule: FileRule) -> dict[str, Any]:
    def ends(of: Range) -> list[int | str]:
        return [int(end) if end < math.inf else "inf" for end in of]

    return {
        "collective": rule.collective,
        "ranks": ends(rule.ranks),
        "nodes": ends(rule.nodes),
        "in_flight": _SEVERAL if rule.beside_others else _ALONE,
        "bytes": ends(rule.message_bytes),
        "algorithm": rule.method.algorithm,
        "segment_bytes": rule.method.segment_bytes,
        "source": _MEASURED if rule.measured else _MODEL,
    }


_RULE_KEYS = {
    "collective", "ranks", "nodes", "in_flight", "bytes", "algorithm", "segment_bytes", "source",
}  # fmt: skip


def load(path: str | Path) -> TuningFile:
    """Read a tuning file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is none, cut off, of another version, or a rule makes no sense; the message
            names file and line, and what was expected.
    """
    text = read_text(path)
    try:
        entry = parse_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: expected JSON of a whole tuning file, got {error.msg}"
        ) from None
    if not isinstance(entry, dict) or entry.get("patallreduce") != "tuning":
        raise ValueError(f'{path}: expected a tuning file, with "patallreduce": "tuning"')
    if entry.get("version") != VERSION:
        raise ValueError(
            f"{path}: expected version {VERSION}, got {entry.get('version')!r}: of another release"
        )
    machine, entries = entry.get("machine"), entry.get("rules")
    if not isinstance(machine, dict):
        raise ValueError(f"{path}: {refused('machine', 'an object', machine)}")
    if not isinstance(entries, list):
        raise ValueError(f"{path}: {refused('rules', 'a list', entries)}")
    lines = _lines(text)
    if len(lines) != len(entries):  # something else has "rules", too
        lines = [1] * len(entries)
    rules = []
    for told, line in zip(entries, lines, strict=True):
        try:
            rules.append(_rule(told, line))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
    return TuningFile(machine, tuple(rules), str(path))


# Where each of the rules begins.
def _lines(text: str) -> list[int]:
    lines: list[int] = []
    if (found := re.search(r'"rules"\s*:\s*\[', text)) is None:
        return lines
    at, decoder = found.end(), json.JSONDecoder()
    while True:
        while text[at] in " \t\r\n,":
            at += 1
        if text[at] == "]":
            return lines
        lines.append(text.count("\n", 0, at) + 1)
        _, at = decoder.raw_decode(text, at)


def _rule(told: Any, line: int) -> FileRule:
    if not isinstance(told, dict) or set(told) != _RULE_KEYS:
        got = sorted(told) if isinstance(told, dict) else told
        raise ValueError(refused("rule", f"an object with {', '.join(sorted(_RULE_KEYS))}", got))
    collective, algorithm = told["collective"], told["algorithm"]
    try:
        known = algorithms(collective)
    except (_core.ScheduleError, TypeError):
        raise ValueError(refused("collective", "all_reduce or another", collective)) from None
    if algorithm not in known:
        hint = nearest(str(algorithm), known)
        expected = f"one of {', '.join(known)} for {collective}"
        raise ValueError(refused("algorithm", expected, algorithm) + hint)
    if told["in_flight"] not in (_ALONE, _SEVERAL):
        expected = f"{_ALONE!r} or {_SEVERAL!r}"
        raise ValueError(refused("in_flight", expected, told["in_flight"]))
    if told["source"] not in (_MEASURED, _MODEL):
        expected = f"{_MEASURED!r} or {_MODEL!r}"
        raise ValueError(refused("source", expected, told["source"]))
    segment_bytes = told["segment_bytes"]
    if not _is_count(segment_bytes, 0):
        raise ValueError(refused("segment_bytes", "a whole number >= 0", segment_bytes))
    rule = FileRule(
        collective,
        _range("ranks", told["ranks"], 1),
        _range("nodes", told["nodes"], 1),
        _range("bytes", told["bytes"], 0),
        told["in_flight"] == _SEVERAL,
        Method(algorithm, segment_bytes),
        told["source"] == _MEASURED,
        line,
    )
    _core.Rules([(_MOST, *rule.method)], collective)  # whose schedule is known beforehand
    return rule


def _range(name: str, told: Any, least: int) -> Range:
    if isinstance(told, list) and len(told) == 2 and _is_count(told[0], least):
        last = math.inf if told[1] == "inf" else told[1]
        if last == math.inf or (_is_count(last, least) and last >= told[0]):
            return float(told[0]), float(last)
    raise ValueError(refused(name, f'[from, to], whole numbers from {least} on, or "inf"', told))


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MOST
