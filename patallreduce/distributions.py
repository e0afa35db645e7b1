"""How to spread N elements over P ranks for a tree sum, and the messages its exchange then takes.

Every function returns one count per rank; a rank holds consecutive elements. Any other counts work
as well, zeros included: a distribution changes the time of a tree sum and never its bits.

Source: Stelz, "Core-Count Independent Reproducible Reduce", bachelor's thesis, KIT (2022), sections
1.2, 2.1 and 3.1.2.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from fractions import Fraction
from math import log2

from patallreduce import _core


def even_lower(elements: int, ranks: int) -> list[int]:
    """As equal as can be; the lower ranks have one more (equation 1.3).

    Args:
        elements: N >= 0.
        ranks: P >= 1.

    Returns:
        (P,) counts that add up to N.

    Raises:
        ValueError: a number is out of range.
    """
    elements, ranks = _checked(elements, ranks)
    share, over = divmod(elements, ranks)
    return [share + (rank < over) for rank in range(ranks)]


def even_upper(elements: int, ranks: int) -> list[int]:
    """As equal as can be; the upper ranks have one more (equation 1.4). As `even_lower`.

    Usually the better of the two: its bad cases cost fewer messages. (The equation is printed with
    N where it needs P: the last N mod P ranks have one more.)
    """
    return even_lower(elements, ranks)[::-1]


def power_of_two(elements: int, ranks: int) -> list[int]:
    """All but the last rank have the largest power of two <= N / P (equation 3.8).

    About one message per rank, but the last rank may have half of all elements. With fewer elements
    than ranks, where the equation has no answer, the first N ranks have one each.
    Arguments, result and errors as of `even_lower`.
    """
    elements, ranks = _checked(elements, ranks)
    if elements < ranks:
        return [int(rank < elements) for rank in range(ranks)]
    power = 1 << (elements // ranks).bit_length() - 1
    return [power] * (ranks - 1) + [elements - power * (ranks - 1)]


def optimized(elements: int, ranks: int, deviation: float = 0.2) -> list[int]:
    """`even_upper`, each start moved down to a rounder index (Algorithm 3): fewer messages.

    Args:
        elements: N >= 0.
        ranks: P >= 1.
        deviation: How far a start may move, in parts of N / P, 0 <= deviation <= 1.

    Returns:
        (P,) counts that add up to N.

    Raises:
        ValueError: a number is out of range.
    """
    if not 0 <= deviation <= 1:
        raise ValueError(f"deviation: expected a number within [0, 1], got {deviation}")
    counts = even_upper(elements, ranks)
    furthest = Fraction(deviation) * elements / ranks
    starts = [_rounder(start, furthest) for start in itertools.accumulate(counts[:-1], initial=0)]
    return [end - start for start, end in itertools.pairwise([*starts, elements])]


def message_count(distribution: Sequence[int], *, buffered: bool = False) -> int:
    """How many messages BTR22's exchange takes: its nodes with children on two ranks.

    Args:
        distribution: (P,) counts >= 0.
        buffered: Whether up to four values for one rank share a message (section 3.1.1).

    Raises:
        ValueError: a count below 0.
    """
    counts = [operator.index(count) for count in distribution]
    return len(_core.tree_messages(counts)) if buffered else _core.message_count(counts)


def message_bound(elements: int, ranks: int) -> float:
    """The most messages without buffering of `even_lower`, for N > P (equation 2.5).

    It was derived for that distribution. `even_upper` nearly always takes fewer, but where N is
    just below a power of two times P it can take one or two more: N = 3, P = 2 has 2, not 1.
    """
    return (ranks - 1) * (log2((elements - 1) / ranks) + 1)


def _rounder(start: int, furthest: Fraction) -> int:
    """The roundest index within `furthest` below: lowest set bits cleared one by one."""
    rounder = start
    while rounder > 0 and start - (rounder & rounder - 1) <= furthest:
        rounder &= rounder - 1
    return rounder


def _checked(elements: int, ranks: int) -> tuple[int, int]:
    elements, ranks = operator.index(elements), operator.index(ranks)
    if elements < 0:
        raise ValueError(f"elements: expected a number >= 0, got {elements}")
    if ranks < 1:
        raise ValueError(f"ranks: expected a number >= 1, got {ranks}")
    return elements, ranks
