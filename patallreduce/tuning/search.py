"""What to measure next: where the model doubts most first, then how finely to cut, then again.

Of each case first the methods that the model thinks fast, one after the other, while another may
still be the fastest; then the fastest one cut more finely and less; then, between two sizes of
which the fastest methods differ, the size in the middle; then those again that are as fast as each
other. What would take longer than is left is not begun.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from patallreduce import _core
from patallreduce.communicator.calls import REPRODUCIBLE, by_rule
from patallreduce.decisions.fit import TIE
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
_APART = 2.0  # times as large: nearer sizes have none measured between them


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
        self._sizes: dict[Case, list[int]] = {}  # ascending, of cases that are alike but for it
        for case in sorted(self.prices_s):
            like = case._replace(message_bytes=0)
            self._sizes.setdefault(like, []).append(case.message_bytes)

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
        between = [found for pair in self._neighbours() for found in _between(*pair, times)]
        yield from (work for _, work in sorted(between, key=lambda found: -found[0]))
        again = [found for case in self._measured(times) for found in _again(case, times)]
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

    # Also between the sizes.
    def _measured(self, times: Times) -> Iterator[Case]:
        for case in times.cases():
            asked = self._sizes.get(case._replace(message_bytes=0))
            if asked and asked[0] <= case.message_bytes <= asked[-1]:
                yield case

    def _neighbours(self) -> Iterator[tuple[Case, Case]]:
        for like, sizes in self._sizes.items():
            for before, after in pairwise(sizes):
                yield like._replace(message_bytes=before), like._replace(message_bytes=after)

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


# The fastest first, the baseline left out.
def _ours(case: Case, times: Times) -> dict[Method, float]:
    known = algorithms(case.collective)
    return {m: median_s for m, median_s in times.medians_s(case).items() if m.algorithm in known}


def _near(ours_s: Mapping[Method, float]) -> list[Method]:
    return [method for method in ours_s if ours_s[method] <= _NEAR * min(ours_s.values())]


# By what one method for both sizes costs: the size in the middle, then what is on either side.
def _between(before: Case, after: Case, times: Times) -> Iterator[tuple[float, Work]]:
    first_s, last_s = _ours(before, times), _ours(after, times)
    if not (first_s and last_s) or after.message_bytes <= _APART * before.message_bytes:
        return
    doubt = min(_slower(next(iter(first_s)), last_s), _slower(next(iter(last_s)), first_s))
    if doubt <= 1 + TIE:
        return
    size = math.isqrt(before.message_bytes * after.message_bytes)
    middle = before._replace(message_bytes=size // ELEMENT_BYTES * ELEMENT_BYTES)
    left = {*_near(first_s), *_near(last_s)}.difference(times.medians_s(middle))
    for method in sorted(left):
        yield doubt, _work(middle, method, max(s.get(method, 0) for s in (first_s, last_s)))
    if not left:
        yield from _between(before, middle, times)
        yield from _between(middle, after, times)


# Than the fastest; inf: what was not measured there was not worth it.
def _slower(method: Method, ours_s: Mapping[Method, float]) -> float:
    return ours_s.get(method, math.inf) / min(ours_s.values())


# By how often they were, the short ones first.
def _again(case: Case, times: Times) -> Iterator[tuple[int, float, Work]]:
    ours_s = _ours(case, times)
    near = _near(ours_s)
    for method in near if len(near) > 1 else ():
        count = times.count(case, method)
        work = _work(case, method, ours_s[method])
        if count < _MOST_AGAIN * work.repeats:
            yield count // work.repeats, work.about_s, work


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
