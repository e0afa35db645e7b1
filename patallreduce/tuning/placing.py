"""Where ranks that share processors run.

Which of them share one makes a call up to twice as long, by some algorithms and not by others; and
where the kernel has put a rank it leaves it for seconds. What is measured one after the other would
all have the same luck.
"""

from __future__ import annotations

import os
import random

_THREADS = "/proc/self/task"


def place_anew(rank: int, ranks: int, number: int) -> None:
    """Put this process on one of its processors, from where the kernel may move it as it likes.

    Args:
        rank: This one of as many on the same processors, which get as many ranks each.
        ranks: P.
        number: Equal on all ranks; by another one chance has it otherwise.
    """
    place = random.Random(number).sample(range(ranks), ranks)[rank]
    for thread in map(int, os.listdir(_THREADS)):
        try:
            usable = sorted(os.sched_getaffinity(thread))
            os.sched_setaffinity(thread, [usable[place % len(usable)]])
            os.sched_setaffinity(thread, usable)
        except OSError:  # it has ended, or nobody may
            continue
