"""How many segments a message is cut into; which algorithm, `_core.Selector` says."""

from __future__ import annotations

from patallreduce import _core
from patallreduce.pricing.link import Link


def choose_segments(
    algorithm: str,
    ranks: int,
    message_bytes: int,
    elements: int,
    link: Link,
    *,
    collective: str = "all_reduce",
) -> int:
    """How many segments a message is cut into, by the algorithm's own rule (csrc/algorithms).

    Always a multiple of the number of parts where the algorithm works on parts, at least 1, and at
    most `elements`.

    Raises:
        ScheduleError: There is no such algorithm for `collective`.
    """
    found = _core.find_algorithm(algorithm, collective)
    return found.segments(ranks, message_bytes, elements, link)
