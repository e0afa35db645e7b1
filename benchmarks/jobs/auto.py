"""`auto` on a simulated job: a real leader, told what its ranks' monitors would tell it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from patallreduce import Link, _core

from .cells import Cell
from .job import Arrivals, Job, Key

_SEGMENT_TIME_S = 2.0  # as plans have it
_EDGES = (1 / 4, 1 / 3)  # of the computation: before the first bucket is ready


def _plans(
    leader: _core.Leader, job: Job, iteration: int, finish_s: Arrivals, arrivals_s: Arrivals
) -> dict[int, list[Key]]:
    """What is planned while an iteration goes on, by iteration; calls' own if that is none.

    Reports and plans take no time on their way.
    """
    reports: list[tuple[float, str, int, tuple[Any, ...]]] = []
    for rank, free_s in enumerate(job.free_s):
        own_s = [row[rank] for row in arrivals_s]
        reports.append((free_s, "started", rank, (free_s, [row[rank] for row in finish_s])))
        for edge in _EDGES:
            at_s = free_s + edge * (own_s[-1] - free_s)
            reports.append((at_s, "edge", rank, (edge, at_s)))
        reports.append((own_s[0], "asked", rank, (own_s[0],)))
        reports.append((own_s[-1], "arrived", rank, (own_s, job.sizes)))
    plans = {}
    for at_s, kind, rank, arguments in sorted(reports, key=lambda report: report[0]):
        plan = getattr(leader, kind)(rank, 1, iteration, *arguments, at_s)
        if plan is not None:
            plans[plan.iteration] = [
                (name, segments, hints, _SEGMENT_TIME_S)
                for _, _, name, segments, hints in plan.buckets
            ] or job.own
    return plans


def ends_s(
    cell: Cell,
    computes_s: list[list[float]],
    believed: Link | None = None,
    underpriced: str = "",
) -> tuple[list[float], dict[str, int]]:
    """When each iteration's last rank has its last result; which algorithms ran how often.

    Args:
        cell: The job.
        computes_s: (iterations, P).
        believed: The link that the planner believes in, if it is another.
        underpriced: An algorithm that takes twice what the planner thinks.
    """
    job = Job(cell, underpriced=underpriced)
    link = believed or cell.link
    planner = _core.Planner(cell.ranks, link)
    leader = _core.Leader(cell.ranks, planner, 1 / link.bytes_per_s)
    finish_s: Arrivals = []
    ends = []
    ran: Counter[str] = Counter()
    plans: dict[int, list[Key]] = {}
    for iteration, compute_s in enumerate(computes_s):
        arrivals_s = job.arrivals_s(compute_s)
        plans |= _plans(leader, job, iteration, finish_s, arrivals_s)
        keys = plans.pop(iteration)
        ran[keys[-1][0]] += 1
        finish_s = job.reduce(keys, arrivals_s)
        ends.append(max(job.free_s))
    return ends, dict(ran)
