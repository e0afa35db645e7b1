"""What to measure next: where the model doubts most first, then how finely to cut, then again.

Of each case first the methods that the model thinks fast, one after the other, while another may
still be the fastest; then the fastest one cut more finely and less; then those again that are as
fast as each other. What would take longer than is left is not begun.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from patallreduce import _core
from patallreduce.communicator.calls import REPRODUCIBLE, by_rule
from patallreduce.decisions.times import Case, Method, Times
from patallreduce.pricing.link import Link
from patallreduce.pricing.schedules import algorithms
from patallreduce.pricing.selection import prices_s
from patallreduce.tuning.measuring import ANY_SIZE, ELEMENT_BYTES, OTHERS, elements_of

_LEAST_REPEATS, _MOST_REPEATS = 3, 100
_LONG_S = 0.02  # of the repeats of what is short
_ONCE_S = 0.05  # what takes as long differs little from time to time: once is enough at first
_MOST_AGAIN = 20  # times as many
# By the model, than what was measured: not worth measuring. Of long calls models know more.
_MOST_SLOWER, _LONG_MOST_SLOWER = 3.0, 1.5
_NEAR = 1.2  # of the fastest: another look may tell otherwise
_CUTS = (2, 4, 0.5)  # of the segment's bytes by the algorithm's own rule
_LEAST_SEGMENT_BYTES = 4 << 10


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

    def following(self, times: Times, left_s: float) -> Work | None:
        """The next, of those that take no longer than `left_s`; None: nothing is left to do."""
        return next((work for work in self._in_order(times) if work.about_s <= left_s), None)

    def least_s(self) -> float:
        """What the shortest of them takes, about."""
        return min(work.about_s for work in self._in_order(Times()))

    def _in_order(self, times: Times) -> Iterator[Work]:
        # By how many methods of the case were tried, then by how much the model doubts.
        first = [found for case in self.prices_s for found in self._by_model(case, times)]
        yield from (work for _, _, work in sorted(first, key=lambda found: found[:2]))
        yield from (work for case in self.prices_s for work in self._cut(case, times))
        again = [found for case in self.prices_s for found in self._again(case, times)]
        yield from (work for _, _, work in sorted(again, key=lambda found: found[:2]))

    def _by_model(self, case: Case, times: Times) -> Iterator[tuple[int, float, Work]]:
        prices_s = self.prices_s[case]
        measured_s = times.medians_s(case)
        best_s = min(measured_s.values(), default=math.inf)
        for place, (method, price_s) in enumerate(prices_s.items()):
            most = _LONG_MOST_SLOWER if price_s > _ONCE_S else _MOST_SLOWER
            if method in measured_s or price_s > most * best_s:
                continue
            yield place, price_s / min(prices_s.values()), _work(case, method, price_s)
            return

    def _cut(self, case: Case, times: Times) -> Iterator[Work]:
        measured_s = times.medians_s(case)
        whole = next((method for method in measured_s if method in self.prices_s[case]), None)
        if whole is None:
            return
        own_bytes = case.message_bytes // self._segments(case, whole)
        for cut in _CUTS:
            method = Method(whole.algorithm, int(own_bytes * cut))
            sensible = _LEAST_SEGMENT_BYTES <= method.segment_bytes <= case.message_bytes
            if sensible and method not in measured_s:
                yield _work(case, method, measured_s[whole])

    # By how often they were, the short ones first.
    def _again(self, case: Case, times: Times) -> Iterator[tuple[int, float, Work]]:
        ours = {
            method: median_s
            for method, median_s in times.medians_s(case).items()
            if method.algorithm in algorithms(case.collective)
        }
        near = [method for method in ours if ours[method] <= _NEAR * min(ours.values())]
        for method in near if len(near) > 1 else ():
            count = times.count(case, method)
            work = _work(case, method, ours[method])
            if count < _MOST_AGAIN * work.repeats:
                yield count // work.repeats, work.about_s, work

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


def prices_of(case: Case, link: Link, nodes: Sequence[int]) -> dict[Method, float]:
    """Seconds by the model of every method that may be measured, the fastest first."""
    elements = elements_of(case)
    size = (ELEMENT_BYTES * elements, elements)
    prices = prices_s(case.collective, case.ranks, *size, link=link, nodes=nodes)
    found = {Method(name): price_s for name, price_s in prices.items() if name != REPRODUCIBLE}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _work(case: Case, method: Method, once_s: float) -> Work:
    once_s *= 1 + OTHERS if case.beside_others else 1
    repeats = 1 if once_s >= _ONCE_S else _LEAST_REPEATS
    repeats = min(max(int(_LONG_S / once_s), repeats), _MOST_REPEATS)
    return Work(case, method, repeats, (repeats + 1) * once_s)
