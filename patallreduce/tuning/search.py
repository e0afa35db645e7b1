"""What to measure next: what promises to win most for the time that it takes.

As long as it is open which method of a case is the fastest, more is known after measuring one of
those that may be. What that wins is, of all that the choice may lose by now, the part that one more
go takes away. What would take longer than is left is not begun.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from statistics import NormalDist
from typing import NamedTuple

from patallreduce import _core
from patallreduce.communicator.calls import REPRODUCIBLE, by_rule
from patallreduce.decisions.fit import cases_between
from patallreduce.decisions.regression import Estimate, Regression
from patallreduce.decisions.times import Case, Method, Times
from patallreduce.pricing.link import Link
from patallreduce.pricing.selection import prices_s
from patallreduce.tuning.measuring import ANY_SIZE, ELEMENT_BYTES, elements_of, in_flight

_LEAST_REPEATS, _MOST_REPEATS = 3, 100  # in one go
_LONG_S = 0.001  # of the repeats of what is short: more of them have the same luck
_ONCE_S = 0.05  # what takes as long differs little from time to time: once is enough in one go
# What promises about as much as the most is measured with it, before that is looked for again.
_TOGETHER_S, _NEARLY = 0.5, 0.25
_SURE = 1e-3  # of the time of the fastest: nothing is won by knowing better
_CUTS = (2, 4, 0.5)  # of the segment's bytes by the algorithm's own rule
_NEAR = 1.25  # of the fastest: a cut may make up for it
_LEAST_SEGMENT_BYTES = 4 << 10
_NORMAL = NormalDist()


class Work(NamedTuple):
    """One thing to measure, and what it takes, about."""

    case: Case
    method: Method
    repeats: int
    about_s: float


class Search:
    """Finds the next thing to measure, given what was measured so far.

    Args:
        cases: All of them.
        link: Between ranks, for the model.
        nodes: (P,) the node of each rank; (): no two share one.
    """

    def __init__(self, cases: Iterable[Case], link: Link, nodes: Sequence[int] = ()) -> None:
        self._link = link
        self._nodes = list(nodes)
        self.prices_s = {case: prices_of(case, link, nodes) for case in cases}
        self._series: dict[tuple[str, bool], list[Case]] = {}
        for case in self.prices_s:
            self._series.setdefault(series_of(case), []).append(case)
        self._measured: dict[Case, tuple[int, int]] = {}  # methods, values
        self._found: dict[Case, list[tuple[float, Work]]] = {}
        self._known_cuts: dict[tuple[Case, str], list[Method]] = {}

    def following(self, times: Times, left_s: float) -> list[Work]:
        """The next few that take no longer than `left_s`; []: nothing is left.

        Those of a case follow each other: what is fast or slow for a while then meets all of them.
        """
        self._look(times)
        promise = itemgetter(1)
        by_case = []
        for found in self._found.values():
            promises: dict[Work, float] = {}
            for promised, work in found:
                if work.about_s <= left_s:
                    promises[work] = max(promised, promises.get(work, 0.0))
            if promises:
                by_case.append(promises)
        by_case.sort(key=lambda promises: max(promises.values()), reverse=True)
        works = [
            work
            for promises in by_case
            for work, promised in sorted(promises.items(), key=promise, reverse=True)
            if promised >= _NEARLY * max(by_case[0].values())
        ]
        ends_s = list(accumulate(work.about_s for work in works))
        return works[: max(bisect_right(ends_s, min(left_s, _TOGETHER_S)), 1)]

    def least_s(self) -> float:
        """What the shortest of them takes, about."""
        self._look(Times())
        return min(work.about_s for of_case in self._found.values() for _, work in of_case)

    # What is new of a case tells of it, and a method that is new there of the other sizes, too.
    def _look(self, times: Times) -> None:
        for series in self._series.values():
            measured = {}
            for case in series:
                counts = [times.count(case, method) for method in times.means_s(case)]
                measured[case] = (len(counts), sum(counts))
            before = {case: self._measured.get(case, (-1, -1)) for case in series}
            changed = [case for case in series if measured[case] != before[case]]
            if any(measured[case][0] != before[case][0] for case in changed):
                changed = series
            if changed:
                regression = Regression(times, series, self.prices_s.__getitem__)
                asked = {case: self.methods(case, regression.measured(case)) for case in changed}
                for case, estimates in regression.estimates(asked).items():
                    self._found[case] = list(_promises(case, estimates, regression))
            self._measured |= measured

    def methods(self, case: Case, means_s: Mapping[Method, float]) -> Iterable[Method]:
        """Those that may be the fastest, by the seconds that are known.

        Cuts of what nearly is, too: what is long is cut for one call alone, and where several are
        in flight an algorithm may win uncut.
        """
        methods = dict.fromkeys([*self.prices_s[case], *means_s])
        for method, mean_s in means_s.items():
            if mean_s <= _NEAR * min(means_s.values()):
                methods |= dict.fromkeys(self._cuts(case, method.algorithm))
        return methods

    def _cuts(self, case: Case, algorithm: str) -> Sequence[Method]:
        if (case, algorithm) not in self._known_cuts:
            known = {self._segments(case, Method(algorithm))}
            own_bytes = case.message_bytes // max(known)
            found = []
            for cut in _CUTS:
                method = Method(algorithm, int(own_bytes * cut))
                segments = self._segments(case, method)
                if method.segment_bytes >= _LEAST_SEGMENT_BYTES and segments not in known:
                    known.add(segments)
                    found.append(method)
            self._known_cuts[case, algorithm] = found
        return self._known_cuts[case, algorithm]

    def _segments(self, case: Case, method: Method) -> int:
        rules = _core.Rules([(ANY_SIZE, *method)], case.collective)
        size = (elements_of(case), ELEMENT_BYTES)
        found = by_rule(
            rules,
            case.collective,
            *size,
            ranks=case.ranks,
            nodes=self._nodes,
            link=self._link,
        )
        return 1 if found is None else found[1]


def with_between(cases: Sequence[Case]) -> list[Case]:
    """The cases, and others between each and the next larger one: a kink may be anywhere."""
    found = list(cases)
    for before, after in pairwise(sorted(cases)):
        if after._replace(message_bytes=before.message_bytes) == before:
            found += cases_between(before, after)
    return found


def prices_of(case: Case, link: Link, nodes: Sequence[int]) -> dict[Method, float]:
    """Seconds by the model of every method that may be measured, the fastest first."""
    elements = elements_of(case)
    size = (ELEMENT_BYTES * elements, elements)
    prices = prices_s(
        case.collective, case.ranks, *size, link=link, nodes=nodes, in_flight=in_flight(case)
    )
    found = {Method(name): price_s for name, price_s in prices.items() if name != REPRODUCIBLE}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def work_of(case: Case, method: Method, once_s: float) -> Work:
    """One go of what takes so long, about."""
    once_s *= in_flight(case)
    if once_s >= _ONCE_S:
        return Work(case, method, 1, once_s)
    repeats = min(max(int(_LONG_S / once_s), _LEAST_REPEATS), _MOST_REPEATS)
    return Work(case, method, repeats, (repeats + 1) * once_s)


def series_of(case: Case) -> tuple[str, bool]:
    """What one regression is of."""
    return case.collective, case.beside_others


# What is won per second by one more go of a case, and which.
def _promises(
    case: Case, estimates: Mapping[Method, Estimate], regression: Regression
) -> Iterator[tuple[float, Work]]:
    fastest = min(estimates, key=lambda method: estimates[method].seconds)
    for method in estimates:
        if method == fastest:
            continue
        pair = (estimates[fastest], estimates[method])
        lost = _lost(*pair)
        if lost < _SURE:
            continue
        unsure = method if estimates[method].error > estimates[fastest].error else fastest
        work = work_of(case, unsure, estimates[unsure].seconds)
        after = regression.error_after(case, unsure, estimates[unsure])
        errors = sorted(one.error for one in pair)
        left = math.hypot(errors[0], after) / math.hypot(*errors)
        yield lost * (1 - left) / work.about_s, work


def _lost(fastest: Estimate, other: Estimate) -> float:
    """What is lost, of its time, if the other one is the faster: expected."""
    error = math.hypot(fastest.error, other.error)
    if error == 0:
        return 0.0
    slower = math.log(other.seconds / fastest.seconds) / error
    return error * (_NORMAL.pdf(slower) - slower * (1 - _NORMAL.cdf(slower)))
