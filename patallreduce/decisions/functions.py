"""Decision functions over ranks and bytes, and what they cost where they are wrong.

A decision map says for each of some numbers of ranks and sizes which method is fastest, of one
collective on one kind of machine. A decision function is smaller, or quicker, or knows what to do
between its points; its penalty at a point is what its choice takes over the fastest, less one.

Source: TUNE07, section 5.1 (decision functions), 6.2.2 (penalties).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple

from patallreduce.decisions.times import Method, Times

Point = tuple[int, int]  # ranks, bytes
DecisionMap = Mapping[Point, Mapping[Method, float]]  # seconds
Decide = Callable[[int, int], Method]  # of ranks and bytes


def map_of(times: Times, collective: str, *, beside_others: bool = False) -> DecisionMap:
    """The trimmed means of one collective, whatever nodes the ranks share."""
    return {
        (case.ranks, case.message_bytes): times.means_s(case)
        for case in times.cases()
        if case.collective == collective and case.beside_others == beside_others
    }


def fastest(times_s: Mapping[Method, float]) -> Method:
    """Of those that were measured; of equal ones the first by name."""
    return min(sorted(times_s), key=times_s.__getitem__)


class Penalty(NamedTuple):
    """Of a decision function over a map: parts of the fastest method's time.

    Args:
        mean: Over all points; the others likewise.
        median: See mean.
        ninety: 90 % of the points have no more.
        most: See mean.
        ties: Share of the points whose choice is within 5 % of the fastest.
        unknown: Points whose choice was not measured there; left out of the others.
    """

    mean: float
    median: float
    ninety: float
    most: float
    ties: float
    unknown: int


_TIE = 0.05  # TUNE07, section 6.1


def penalty(decide: Decide, of: DecisionMap) -> Penalty:
    """What `decide` costs on the points of `of`: best on such as it was not made from.

    Raises:
        ValueError: Nothing that it chooses was measured.
    """
    found = []
    unknown = 0
    for (ranks, size), times_s in of.items():
        chosen_s = times_s.get(decide(ranks, size))
        if chosen_s is None:
            unknown += 1
        else:
            found.append(chosen_s / min(times_s.values()) - 1)
    if not found:
        raise ValueError(f"penalty: expected measured choices, got none at {unknown} points")
    found.sort()
    ninety = found[min(int(0.9 * len(found)), len(found) - 1)]
    ties = sum(one <= _TIE for one in found) / len(found)
    return Penalty(
        statistics.fmean(found), statistics.median(found), ninety, found[-1], ties, unknown
    )
