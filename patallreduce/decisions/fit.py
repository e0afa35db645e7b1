"""From times to rules: what was measured, at the sizes that were, and the model between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from patallreduce import _core
from patallreduce.decisions.rules import FileRule, TuningFile
from patallreduce.decisions.times import Case, Machine, Method, Times
from patallreduce.pricing.schedules import algorithms

TIE = 0.03  # of the faster: nobody notices less
_CLEAR = 2.0  # standard errors, beyond that


Prices = Callable[[Case], Mapping[Method, float]]  # seconds, by the model


class _Choice(NamedTuple):
    message_bytes: int
    method: Method
    measured: bool


def fitted(
    times: Times, machine: Machine, prices: Prices | None = None, cases: Iterable[Case] = ()
) -> TuningFile:
    """The rules by which every case that was measured gets its fastest method, or one as fast.

    Between two sizes a method takes what the model says, times what it took over that at either
    (without a model: its times are straight in logarithms). So borders lie where the times cross,
    and a method may be the fastest between two sizes that is so at neither; in the middle, where
    the fastest at one size was not measured at the other. Beyond the outermost nothing changes
    (TUNE07, section 5.3.3). What is not clearly faster than the usual algorithm, or than the method
    of the size before, is not taken.

    Args:
        times: What was measured.
        machine: Where.
        prices: What the model thinks of ranks that have nothing else in flight.
        cases: Which it decides where they were not measured.
    """
    series: dict[tuple[str, int, int, bool], list[Case]] = {}
    for case in sorted({*times.cases(), *cases}):
        key = (case.collective, case.ranks, case.nodes, case.beside_others)
        series.setdefault(key, []).append(case)
    rules = []
    for (collective, ranks, nodes, beside_others), of in series.items():
        alone = None if beside_others else prices
        for first, last, choice in _runs(_Fit(times, of, alone).choices()):
            rules.append(
                FileRule(
                    collective,
                    (ranks, ranks),
                    (nodes, nodes),
                    (first, last),
                    beside_others,
                    choice.method,
                    choice.measured,
                )
            )
    return TuningFile(machine, tuple(rules))


class _Fit:
    """One collective among so many ranks; cases by size."""

    def __init__(self, times: Times, cases: Sequence[Case], prices: Prices | None) -> None:
        self._times, self._cases, self._prices = times, cases, prices
        self._chosen: list[_Choice] = []

    def choices(self) -> list[_Choice]:
        """By size: of every case, and of some sizes between those that were measured."""
        before: Case | None = None
        for case in self._cases:
            medians_s = self._ours(case)
            if medians_s:
                for size in _between(before, case):
                    self._choose_by(before, case, size)
                self._choose(case, medians_s)
                before = case
            elif self._prices is not None:
                prices_s = self._prices(case)
                method = min(prices_s, key=prices_s.__getitem__)
                self._chosen.append(_Choice(case.message_bytes, method, measured=False))
                before = None
        return self._chosen

    def _ours(self, case: Case) -> dict[Method, float]:
        known = algorithms(case.collective)
        medians_s = self._times.medians_s(case)
        return {method: s for method, s in medians_s.items() if method.algorithm in known}

    def _choose(self, case: Case, medians_s: Mapping[Method, float]) -> None:
        fastest = min(medians_s, key=medians_s.__getitem__)
        usual = Method(_core.usual_algorithm(case.collective).name)
        preferred = [method for method in (*self._last(), usual) if method in medians_s]

        def as_fast(method: Method) -> bool:
            error_s = math.hypot(*(self._times.error_s(case, one) for one in (method, fastest)))
            return medians_s[method] <= medians_s[fastest] * (1 + TIE) + _CLEAR * error_s

        method = next(filter(as_fast, preferred), fastest)
        self._chosen.append(_Choice(case.message_bytes, method, measured=True))

    def _choose_by(self, before: Case | None, after: Case, size: int) -> None:
        assert before is not None
        ends = [(self._ours(case), self._of_model(case)) for case in (before, after)]
        here_s = self._of_model(after._replace(message_bytes=size))
        share = math.log(size / before.message_bytes)
        share /= math.log(after.message_bytes / before.message_bytes)
        found = {}
        for method in {*ends[0][0], *ends[1][0]}:
            whole = Method(method.algorithm)
            over = [
                (weight, math.log(medians_s[method] / model_s.get(whole, 1.0)))
                for weight, (medians_s, model_s) in zip((1 - share, share), ends, strict=True)
                if method in medians_s
            ]
            # Cuts were tried where they might win: one that did so once promises too much.
            if len(over) == len(ends) or (method == whole and whole in here_s):
                mean = sum(weight * one for weight, one in over) / sum(w for w, _ in over)
                found[method] = here_s.get(whole, 1.0) * math.exp(mean)
        if not {min(medians_s, key=medians_s.__getitem__) for medians_s, _ in ends} <= {*found}:
            return  # one was measured at one size only
        fastest = min(sorted(found), key=found.__getitem__)
        last = next(iter(self._last()))
        as_fast = last in found and found[last] <= found[fastest] * (1 + TIE)
        self._chosen.append(_Choice(size, last if as_fast else fastest, measured=True))

    def _of_model(self, case: Case) -> Mapping[Method, float]:
        return {} if self._prices is None else self._prices(case)

    def _last(self) -> list[Method]:
        return [choice.method for choice in self._chosen[-1:]]


_BETWEEN = math.log(2) / 2  # two sizes to an octave


def _between(before: Case | None, after: Case) -> list[int]:
    if before is None or before.message_bytes == 0:
        return []
    width = math.log(after.message_bytes / before.message_bytes)
    parts = max(round(width / _BETWEEN), 1)
    sizes = (before.message_bytes * math.exp(width * n / parts) for n in range(1, parts))
    return [int(size) // 4 * 4 for size in sizes]


def _runs(chosen: Sequence[_Choice]) -> list[tuple[int, float, _Choice]]:
    runs: list[tuple[int, float, _Choice]] = []
    first = 0
    for choice, after in zip(chosen, [*chosen[1:], None], strict=True):
        if after is not None and after[1:] == choice[1:]:
            continue
        last = math.inf if after is None else math.isqrt(choice.message_bytes * after.message_bytes)
        runs.append((first, last, choice))
        first = 0 if after is None else int(last) + 1
    return runs
