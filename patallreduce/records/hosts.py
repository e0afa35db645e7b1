"""Is a late rank's host busier than the others'?  What ranks tell of it, about once a second."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from patallreduce.records.iterations import Iteration

# By so much more than the median of the other ranks: a part of the time, or pages per second.
_MORE = {"waited": 0.1, "throttled": 0.1, "stolen": 0.1, "faults_per_s": 100.0}
_SENTENCES = {
    "waited": "it had to wait for {:.0%} of the processor time that it wanted",
    "throttled": "its control group's quota was used up in {:.0%} of the periods",
    "stolen": "{:.0%} of its processors' time was taken by other guests of the machine",
    "faults_per_s": "it read {:.0f} pages per second from disk, as when it swaps",
}


def busy_host(iterations: Sequence[Iteration], rank: int) -> str:
    """Say how a rank's host is busier than those of the others, by medians; "" if it is not."""
    said = []
    for name, more in _MORE.items():
        mine: list[float] = []
        others: list[float] = []
        for iteration in iterations:
            for of_rank, value in enumerate(iteration.host.get(name, ())):
                if not math.isnan(value):
                    (mine if of_rank == rank else others).append(value)
        if mine and others and statistics.median(mine) >= statistics.median(others) + more:
            said.append(_SENTENCES[name].format(statistics.median(mine)).replace("%", " %"))
    return " and ".join(said)
