"""Where ranks run that share processors.

Which of them share one makes a call up to twice as long, by some algorithms more than by others;
and where the kernel has put a rank it leaves it for seconds. What is measured meanwhile would all
have the same luck, and another method the next time another one.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator


@contextlib.contextmanager
def placed(rank: int, ranks: int, number: int) -> Iterator[None]:
    """Keep this process on one of its processors.

    Args:
        rank: This one of as many on the same processors, which get as many ranks each.
        ranks: P.
        number: Equal on all ranks; by another one chance has it otherwise.
    """
    place = random.Random(number).sample(range(ranks), ranks)[rank]
    usable_by: dict[int, list[int]] = {}
    own = sorted(os.sched_getaffinity(0))  # of threads that start meanwhile, too
    for thread in _threads():
        with contextlib.suppress(OSError):  # it has ended, or nobody may
            usable = sorted(os.sched_getaffinity(thread))
            os.sched_setaffinity(thread, [usable[place % len(usable)]])
            usable_by[thread] = usable
    try:
        yield
    finally:
        for thread in _threads():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, usable_by.get(thread, own))


def _threads() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/task")]
