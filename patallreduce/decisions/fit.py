"""From times to rules: at the sizes that were measured and between them, as regression sees it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from patallreduce import _core
from patallreduce.decisions.regression import Prices, Regression
from patallreduce.decisions.rules import FileRule, TuningFile
from patallreduce.decisions.times import Case, Machine, Method, Times

TIE = 0.03  # of the faster: nobody notices less
_CUT_TIE = 0.06  # the same of a cut: it is of one size, an algorithm's own rule of all


class _Choice(NamedTuple):
    message_bytes: int
    method: Method
    measured: bool


def fitted(
    times: Times, machine: Machine, prices: Prices, cases: Iterable[Case] = ()
) -> TuningFile:
    """The rules by which every size gets the method that is fastest there, or one as fast.

    A method takes what `Regression` says of steadied times, and one standard error more: what was
    measured seldom, or only at other sizes, has to be the faster for it. Between two sizes a rule
    may be of a method that is fastest at neither. Beyond the outermost nothing changes (TUNE07,
    section 5.3.3). The method of the size before stays, and the usual algorithm, and how the
    algorithm's own rule cuts, where another wins next to nothing.

    Args:
        times: What was measured.
        machine: Where.
        prices: What the model thinks of ranks that arrive together.
        cases: Which it decides where they were not measured, too.
    """
    times = times.steadied()
    series: dict[tuple[str, int, int, bool], list[Case]] = {}
    for case in sorted({*times.cases(), *cases}):
        key = (case.collective, case.ranks, case.nodes, case.beside_others)
        series.setdefault(key, []).append(case)
    rules = []
    for (collective, ranks, nodes, beside_others), of in series.items():
        for first, last, choice in _runs(_choices(times, of, prices)):
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


def _choices(times: Times, cases: Sequence[Case], prices: Prices) -> list[_Choice]:
    """By size: of every case, and of some sizes between those that were measured."""
    regression = Regression(times, cases, prices)
    usual = Method(_core.usual_algorithm(cases[0].collective).name)
    measured: dict[Case, bool] = {}
    before: Case | None = None
    for case in cases:
        is_measured = bool(regression.measured(case))
        between = cases_between(before, case) if before and is_measured else []
        measured |= dict.fromkeys([*between, case], is_measured)
        before = case if is_measured else None
    asked = {at: dict.fromkeys([*prices(at), *regression.measured(at)]) for at in measured}
    chosen: list[_Choice] = []
    for at, estimates in regression.estimates(asked).items():
        seconds = {method: one.at_most_s() for method, one in estimates.items()}
        fastest = min(seconds, key=seconds.__getitem__)
        preferred = [*(choice.method for choice in chosen[-1:]), usual]
        as_fast = (1 + TIE) * seconds[fastest]
        method = next((m for m in preferred if seconds.get(m, math.inf) <= as_fast), fastest)
        by_own_rule = Method(method.algorithm)
        if seconds.get(by_own_rule, math.inf) <= (1 + _CUT_TIE) * seconds[fastest]:
            method = by_own_rule
        chosen.append(_Choice(at.message_bytes, method, measured[at]))
    return chosen


_BETWEEN = math.log(2) / 2  # two sizes to an octave


def cases_between(before: Case, after: Case) -> list[Case]:
    """Of sizes between two, so that no two neighbours are much more than half an octave apart."""
    if before.message_bytes == 0:
        return []
    width = math.log(after.message_bytes / before.message_bytes)
    parts = max(round(width / _BETWEEN), 1)
    sizes = (before.message_bytes * math.exp(width * n / parts) for n in range(1, parts))
    return [after._replace(message_bytes=int(size) // 4 * 4) for size in sizes]


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
