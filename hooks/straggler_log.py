"""Who is late, and why, in the log of rank 0 while the job runs: each finding once.

A thread looks at the newest iterations now and then, for a thousandth of a core at most, so that
the job is not slower for it.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Sequence

from patallreduce.communicator.communicator import Communicator
from patallreduce.records.findings import Cause, Finding
from patallreduce.records.stragglers import straggler_report

_log = logging.getLogger("patallreduce")

_NEWEST = 128  # iterations; of 8 ranks a look at them takes 20 ms
_EVERY_S = 5.0
_SHARE = 1e-3  # of a core

Told = frozenset[tuple[int, Cause]]


def watch(communicator: Communicator, loop: int, every_s: float = _EVERY_S) -> threading.Event:
    """Log what is found of a model's ranks, until the communicator ends.

    Args:
        communicator: It is not kept alive.
        loop: Of the model.
        every_s: Seconds between two looks, at least.

    Returns:
        What ends it sooner, when it is set.
    """
    ended = threading.Event()
    arguments = (weakref.ref(communicator), loop, every_s, ended)
    threading.Thread(target=_watch, args=arguments, name="straggler log", daemon=True).start()
    return ended


def tell(findings: Sequence[Finding], told: Told) -> Told:
    """Log those that are not among `told`; return what is told now.

    A rank that is not late any more is forgotten: when it is late again, that is told again.
    """
    still = {finding.rank for finding in findings}
    told = frozenset((rank, cause) for rank, cause in told if rank in still)
    for finding in findings:
        if (finding.rank, finding.cause) not in told:
            _log.warning("patallreduce: %s", finding)
    return told | {(finding.rank, finding.cause) for finding in findings}


def _watch(
    of: weakref.ref[Communicator], loop: int, every_s: float, ended: threading.Event
) -> None:
    told, wait_s = Told(), every_s
    while not ended.wait(wait_s):
        communicator = of()
        if communicator is None or not communicator.usable:
            return
        began_s = time.thread_time()
        iterations = communicator.iterations(loop, _NEWEST)
        del communicator  # nor is it kept alive between two looks
        told = tell(straggler_report(iterations).findings, told)
        wait_s = max(every_s, (time.thread_time() - began_s) / _SHARE)
