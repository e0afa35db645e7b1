"""What was measured: seconds by case and method, kept as JSON lines."""

from __future__ import annotations

import json
import math
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

import torch

from patallreduce.arguments import refused
from patallreduce.statistics import trimmed_mean
from patallreduce.text.files import parse_json, read_text

Machine = dict[str, Any]  # what tells one from another, see `rules.machine_of`


class Case(NamedTuple):
    """What is decided about; all ranks arrive together.

    Args:
        collective: As of `patallreduce.algorithms`.
        ranks: P.
        nodes: Of them; P where no two share one.
        message_bytes: Of the whole tensor.
        beside_others: Others like it are in flight.
    """

    collective: str
    ranks: int
    nodes: int
    message_bytes: int
    beside_others: bool


class Method(NamedTuple):
    """What is decided: an algorithm, and bytes per segment, about; 0: as its own rule cuts."""

    algorithm: str
    segment_bytes: int = 0

    def __str__(self) -> str:
        """Such as ring/32768."""
        return f"{self.algorithm}/{self.segment_bytes}" if self.segment_bytes else self.algorithm


# Of differences between two goes: a standard deviation of single ones, in their median.
_SINGLE = 1.4826 / math.sqrt(2)
_USUAL_SPREAD = 0.1  # before enough is known
_LEAST_SPREAD = 5e-4  # of a second
_LEAST_DIFFERENCES = 10
# Goes to either side that tell how slow everything was meanwhile, and how many have to; how many of
# a method tell what it usually takes.
_MEANWHILE, _LEAST_MEANWHILE, _LEAST_GOES = 100, 5, 3
_ROUNDS = 10


class Times:
    """Seconds of each case by each method, of the last rank to be done: some values in each go.

    What is measured in one go has the same luck: 8 ranks at 200 Mbit/s differ as much between goes
    as within them. So errors are counted by goes.
    """

    def __init__(self) -> None:
        self._goes: dict[Case, dict[Method, list[list[float]]]] = defaultdict(dict)
        self._in_order: list[tuple[Case, Method, list[float]]] = []
        self._means_s: dict[Case, dict[Method, float]] = {}
        self._differences: list[float] = []  # of logarithms, as if of one second; in order

    def add(self, case: Case, method: Method, seconds: Iterable[float]) -> None:
        """Note the values of one go more; ValueError unless all are numbers > 0."""
        values = list(seconds)
        if not values or not all(0 < value < math.inf for value in values):
            raise ValueError(f"seconds: expected numbers > 0, got {values!r}")
        goes = self._goes[case].setdefault(method, [])
        if goes:
            one, after = map(trimmed_mean, (goes[-1], values))
            insort(self._differences, abs(math.log(after / one)) * math.sqrt(one))
        goes.append(values)
        self._in_order.append((case, method, values))
        self._means_s.pop(case, None)

    def cases(self) -> list[Case]:
        """Every case of which anything is known, in order."""
        return sorted(case for case, methods in self._goes.items() if methods)

    def means_s(self, case: Case) -> dict[Method, float]:
        """Trimmed ones, of each method, the fastest first."""
        if case not in self._means_s:
            means_s = {
                method: trimmed_mean(list(chain.from_iterable(goes)))
                for method, goes in self._goes[case].items()
            }
            in_order = sorted(means_s.items(), key=lambda item: item[1])
            self._means_s[case] = dict(in_order)
        return self._means_s[case]

    def error(self, case: Case, method: Method) -> float:
        """By how much of it its mean may be off: a standard error."""
        return self.error_of(self.means_s(case)[method], self.goes(case, method))

    def error_of(self, seconds: float, goes: int) -> float:
        """The same of what takes so long, after so many goes.

        The fewer values there are, the more of bad luck is left in a trimmed mean.
        """
        return self.spread(seconds) * (1 + 1 / goes) / math.sqrt(goes)

    def spread(self, seconds: float) -> float:
        """By how much of it what takes so long differs from go to go: a standard deviation.

        Delays add up, so their variance grows with the time.
        """
        known = self._differences
        if len(known) < _LEAST_DIFFERENCES:
            return _USUAL_SPREAD
        of_a_second = _SINGLE * known[len(known) // 2]
        return max(of_a_second, _LEAST_SPREAD) / math.sqrt(seconds)

    def goes(self, case: Case, method: Method) -> int:
        """How often it was measured."""
        return len(self._goes[case].get(method, ()))

    def count(self, case: Case, method: Method) -> int:
        """How many values there are."""
        return sum(map(len, self._goes[case].get(method, ())))

    def in_order(self) -> Sequence[tuple[Case, Method, list[float]]]:
        """All goes, as they were added."""
        return self._in_order

    def lines(self) -> Iterator[str]:
        """As `read_times` reads them, one for each go, in the order in which they were added."""
        return (line_of(*go) for go in self._in_order)

    def steadied(self) -> Times:
        """The same less what everything took longer about then, or shorter, by many goes.

        A method that was measured when the machine was slow would seem slow beside one that was
        not, above all where a file is gone on with on another day.
        """
        steady = Times()
        for (case, method, values), slower in zip(self._in_order, self._slowness(), strict=True):
            steady.add(case, method, [value / slower for value in values])
        return steady

    # Of each go: how much slower than usual those around it were.
    def _slowness(self) -> list[float]:
        if not self._in_order:
            return []
        logs = torch.tensor([math.log(trimmed_mean(s)) for *_, s in self._in_order]).double()
        numbers: dict[tuple[Case, Method], list[int]] = defaultdict(list)
        for number, (case, method, _) in enumerate(self._in_order):
            numbers[case, method].append(number)
        slower = torch.zeros_like(logs)
        around = torch.full((_MEANWHILE,), math.nan, dtype=logs.dtype)
        for _ in range(_ROUNDS):  # what is usual shows the better, the better that is known
            beyond = torch.full_like(logs, math.nan)
            for of in numbers.values():
                if len(of) >= _LEAST_GOES:
                    beyond[of] = logs[of] - (logs[of] - slower[of]).median()
            windows = torch.cat([around, beyond, around]).unfold(0, 2 * _MEANWHILE + 1, 1)
            known = (~windows.isnan()).sum(1) >= _LEAST_MEANWHILE
            slower = torch.where(known, windows.nanmean(1), 0.0)
        return slower.exp().tolist()


def line_of(case: Case, method: Method, seconds: Iterable[float]) -> str:
    """One line of a file of times."""
    return json.dumps({**case._asdict(), **method._asdict(), "seconds": list(seconds)})


def header_of(machine: Machine) -> str:
    """The first line of a file of times."""
    return json.dumps({"patallreduce": "times", "version": 1, "machine": machine})


def read_times(path: str | Path) -> tuple[Machine, Times]:
    """Read a file of times. A last line that was cut off is left out: nothing else is lost.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file; the message names the line and what was expected.
    """
    lines = read_text(path).splitlines()
    times = Times()
    machine: Machine | None = None
    for number, line in enumerate(lines, 1):
        try:
            entry = parse_json(line)
            if machine is None:
                machine = _machine(entry)
                continue
            case, method = _of(Case, entry), _of(Method, entry)
            times.add(case, method, entry["seconds"])
        except (ValueError, TypeError, KeyError) as error:
            if number == len(lines) > 1 and isinstance(error, json.JSONDecodeError):
                break
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{path}, line {number}: expected a line of times: {what}") from None
    if machine is None:
        raise ValueError(f"{path}: expected a file of times that `tune` wrote, got an empty one")
    return machine, times


_EXPECTED = {str: "a text", int: "a whole number >= 0", bool: "true or false"}
_T = TypeVar("_T", Case, Method)


def _of(kind: type[_T], entry: Any) -> _T:
    values = {name: entry[name] for name in kind._fields}
    for name, expected in get_type_hints(kind).items():
        if type(values[name]) is not expected or (expected is int and values[name] < 0):
            raise ValueError(refused(name, _EXPECTED[expected], values[name]))
    return kind(**values)


def _machine(entry: Any) -> Machine:
    if not isinstance(entry, dict) or entry.get("patallreduce") != "times":
        raise ValueError("a file that `tune` wrote")
    if entry.get("version") != 1:
        raise ValueError(f"version 1, got {entry.get('version')!r}")
    machine = entry["machine"]
    if not isinstance(machine, dict):
        raise ValueError(f"the machine, got {machine!r}")
    return machine
