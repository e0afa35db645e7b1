"""Tunes the ranks of a communicator within a budget; rank 0 leads, and keeps what is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import torch.distributed as dist

from patallreduce.communicator.communicator import Communicator
from patallreduce.decisions.fit import fitted
from patallreduce.decisions.machine import processor
from patallreduce.decisions.rules import TuningFile
from patallreduce.decisions.times import (
    Case,
    Machine,
    Method,
    Times,
    header_of,
    line_of,
    read_times,
)
from patallreduce.pricing.schedules import algorithms
from patallreduce.text.units import bytes_text
from patallreduce.tuning.measuring import GLOO, Measuring, has_baseline
from patallreduce.tuning.search import Search, Work, prices_of, with_between, work_of

_CODES = 4  # of one work
_FOR_MEASURING = 0.98  # of the budget


def machine_of(comm: Communicator) -> Machine:
    """Describe the machine of a communicator's ranks. Collective: it may measure the link."""
    processors: list[str] = [processor()] * comm.ranks
    if dist.is_available() and dist.is_initialized():
        dist.all_gather_object(processors, processor())
    return {
        "release": version("patallreduce"),
        "transport": comm.transport,
        "ranks": comm.ranks,
        "nodes": nodes_of(comm),
        "processors": sorted(set(processors)),
        "link": asdict(comm.link),
    }


def nodes_of(comm: Communicator) -> int:
    """How many; the ranks, where no two share one."""
    return len(set(comm.nodes)) or comm.ranks


def cases_of(
    comm: Communicator, collectives: Sequence[str], sizes_bytes: Sequence[int]
) -> list[Case]:
    """What is to be tuned on these ranks; all-reduces also beside others."""
    nodes = nodes_of(comm)
    return [
        Case(collective, comm.ranks, nodes, size, beside)
        for collective in collectives
        for beside in ((False, True) if collective == "all_reduce" else (False,))
        for size in sizes_bytes
    ]


class Journal:
    """The file of times: what is measured is there at once. One that is there is gone on with.

    Args:
        path: Of the file.
        machine: At hand.

    Raises:
        OSError: It cannot be read or written.
        ValueError: It is no such file, or of another machine.
    """

    def __init__(self, path: Path, machine: Machine) -> None:
        self.times = Times()
        self._path = path
        if path.exists() and path.stat().st_size > 0:
            before, self.times = read_times(path)
            differing = [name for name in machine if before.get(name) != machine[name]]
            # Links are measured, and differ a little each time.
            if other := [name for name in differing if name != "link"]:
                told = ", ".join(
                    f"{name} {before.get(name)!r}, here {machine[name]!r}" for name in other
                )
                raise ValueError(f"{path}: expected times of this machine, got {told}")
            machine = before
        # Written anew: a last line may have been cut off.
        path.write_text("\n".join([header_of(machine), *self.times.lines(), ""]), encoding="utf-8")

    def add(self, case: Case, method: Method, seconds: Sequence[float]) -> None:
        """Keep what was measured."""
        self.times.add(case, method, seconds)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line_of(case, method, seconds) + "\n")


def tune(
    comm: Communicator,
    cases: Sequence[Case],
    budget_s: float,
    journal: Journal | None,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure what counts most, for so many seconds. Collective.

    Args:
        comm: Its ranks do nothing else meanwhile.
        cases: Equal on all ranks; sizes between theirs are measured where that promises more.
        budget_s: Of the wall; the last fiftieth is left for the rules.
        journal: Rank 0's, into which all goes; None: of another rank.
        tell: Called on rank 0 with a line for each thing that was measured.

    Raises:
        ValueError: Not even one thing can be measured in so short a time.
        RuntimeError: An algorithm gave a wrong result.
        TransportError: A rank died; what was measured before is in the journal.
    """
    link = comm.link  # collective
    begun_s = time.monotonic()
    measuring = Measuring(comm)
    searched = with_between(cases)
    lead = None
    if journal is not None:
        lead = _Lead(Search(searched, link, comm.nodes), cases, journal, budget_s)
    while True:
        elapsed_s = time.monotonic() - begun_s
        following = [] if lead is None else lead.following(elapsed_s)
        told = measuring.agreed([code for work in following for code in _encoded(searched, work)])
        if not told:
            break
        # Without a pause: after one, ranks that share processors are slower for a while.
        for first in range(0, len(told), _CODES):
            case, method, repeats = _decoded(searched, told[first : first + _CODES])
            seconds = measuring.seconds(case, method, repeats)
            if journal is None:
                continue
            journal.add(case, method, seconds)
            text, mean_ms = _text(case), statistics.fmean(seconds) * 1e3
            tell(f"{elapsed_s:5.1f} of {budget_s:g} s: {text}: {method} {mean_ms:.3f} ms")
    if lead is not None and not any(map(lead.times.means_s, searched)):
        raise ValueError(
            f"budget: expected time for one measurement, got {budget_s:g} s; the shortest takes "
            f"about {lead.search.least_s():.3g} s"
        )


def file_of(
    comm: Communicator, cases: Iterable[Case], times: Times, machine: Machine
) -> TuningFile:
    """The rules that follow, with the model of these ranks' network. On rank 0."""
    prices = cache(partial(prices_of, link=comm.link, nodes=comm.nodes))
    return fitted(times, machine, prices, [case for case in cases if not case.beside_others])


class _Lead:
    def __init__(
        self, search: Search, cases: Sequence[Case], journal: Journal, budget_s: float
    ) -> None:
        self.search = search
        self._cases = cases
        self.times = journal.times
        self._budget_s = budget_s

    def following(self, elapsed_s: float) -> list[Work]:
        times, left_s = self.times, _FOR_MEASURING * self._budget_s - elapsed_s
        for case in self._cases:  # beside what is measured of ours
            if times.means_s(case) and has_baseline(case) and not times.count(case, GLOO):
                work = work_of(case, GLOO, max(times.means_s(case).values()))
                if work.about_s <= left_s:
                    return [work]
        return self.search.following(times, left_s)


def _encoded(cases: Sequence[Case], work: Work) -> list[int]:
    names = [GLOO.algorithm, *algorithms(work.case.collective)]
    method = work.method
    return [
        cases.index(work.case),
        names.index(method.algorithm),
        method.segment_bytes,
        work.repeats,
    ]


def _decoded(cases: Sequence[Case], told: Sequence[int]) -> tuple[Case, Method, int]:
    case = cases[told[0]]
    names = [GLOO.algorithm, *algorithms(case.collective)]
    return case, Method(names[told[1]], told[2]), told[3]


def _text(case: Case) -> str:
    beside = " beside others" if case.beside_others else ""
    return f"{case.collective} of {bytes_text(case.message_bytes)}{beside}"
