"""What to measure next: all cases get as much time, so that short ones are told apart from noise.

Of each case first the methods that the model thinks fast, one after the other, while another may
still be the fastest; then those that are so at the sizes beside it, since what is known at both
ends of a range tells more of what is between them; then those again, in turns, of which it is in
doubt whether they are as fast as the fastest. After some turns of these the fastest is cut more
finely and less. What would take longer than is left is not begun.
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
_FIRST_TURNS, _MOST_TURNS = 3, 20
# By the model, than what was measured: not worth measuring. Of long calls models know more.
_MOST_SLOWER, _LONG_MOST_SLOWER = 3.0, 1.5
# What a median of one turn may be off by, of itself: what disturbs a call may last for a turn.
_OFF, _LONG_OFF = 0.6, 0.2
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
        def time_had(case: Case) -> tuple[float, float]:
            return _in_flight(case) * times.total_s(case), min(self.prices_s[case].values())

        for case in sorted(self.prices_s, key=time_had):
            yield from self._by_model(case, times)
            yield from self._of_neighbours(case, times)
            yield from self._again(case, times, _FIRST_TURNS)
            yield from self._cut(case, times)
            yield from self._again(case, times, _MOST_TURNS)

    def _by_model(self, case: Case, times: Times) -> Iterator[Work]:
        measured_s = times.medians_s(case)
        best_s = min(measured_s.values(), default=math.inf)
        for method, price_s in self.prices_s[case].items():
            most = _LONG_MOST_SLOWER if price_s > _ONCE_S else _MOST_SLOWER
            if method not in measured_s and price_s <= most * best_s:
                yield _work(case, method, price_s)

    def _of_neighbours(self, case: Case, times: Times) -> Iterator[Work]:
        series = sorted(one for one in self.prices_s if _alike(one, case))
        place = series.index(case)
        for other in (*series[:place][-1:], *series[place + 1 :][:1]):
            fastest = next((m for m in times.medians_s(other) if m in self.prices_s[case]), None)
            if fastest is not None and fastest not in times.medians_s(case):
                yield _work(case, fastest, self.prices_s[case][fastest])

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

    def _again(self, case: Case, times: Times, most_turns: int) -> Iterator[Work]:
        near = []
        best_s = math.inf
        for method, median_s in times.medians_s(case).items():  # the fastest first
            if method.algorithm not in algorithms(case.collective):
                continue
            best_s = min(best_s, median_s)
            work = _work(case, method, median_s)
            turns = times.count(case, method) / work.repeats
            off = (_LONG_OFF if median_s > _ONCE_S else _OFF) / math.sqrt(turns)
            if median_s <= (1 + off) * best_s:
                near.append((turns, work))
        for turns, work in sorted(near, key=lambda one: one[0]):
            if len(near) > 1 and turns < most_turns:
                yield work

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


def _in_flight(case: Case) -> int:
    return 1 + OTHERS if case.beside_others else 1


def _alike(one: Case, other: Case) -> bool:
    return one._replace(message_bytes=0) == other._replace(message_bytes=0)


def _work(case: Case, method: Method, once_s: float) -> Work:
    once_s *= _in_flight(case)
    repeats = 1 if once_s >= _ONCE_S else _LEAST_REPEATS
    repeats = min(max(int(_LONG_S / once_s), repeats), _MOST_REPEATS)
    return Work(case, method, repeats, (repeats + 1) * once_s)
