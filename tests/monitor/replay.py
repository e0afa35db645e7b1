"""Iterations of made-up ranks, told to a leader as their monitors would tell it."""

from __future__ import annotations

from patallreduce import Link, _core

SIZES = [(1 << 18, 4), (1 << 16, 4)]
LINK = Link(50e-6, 25e6, 5e9)  # M * beta of the first bucket: 42 ms
FRACTIONS = (0.25, 0.5, 0.75)
SLOW = [0.1, 0.1, 0.5, 0.1]  # what four ranks compute: rank 2 is late by ten such transfers


def leader(ranks, chooses=True, patience_s_per_byte=0.0, link=LINK):
    planner = _core.Planner(ranks, link) if chooses else None
    return _core.Leader(ranks, planner, patience_s_per_byte)


class Job:
    """Tells a leader of one iteration after the other, in the order of time."""

    def __init__(
        self,
        ranks,
        *,
        chooses=True,
        loop=1,
        sizes=SIZES,
        patience_s_per_byte=0.0,
        link=LINK,
        way_s=1e-4,  # of what is told
    ):
        self.leader = leader(ranks, chooses, patience_s_per_byte, link)
        self.ranks, self.loop, self.sizes, self.way_s = ranks, loop, sizes, way_s
        self.iteration = 0
        self.now_s = 100.0

    def iterate(self, computes_s, *, fractions=FRACTIONS, silent=(), told=None):
        """One iteration: every plan that came, as (the report that made it due, plan).

        Args:
            computes_s: (ranks,) from start to arrival.
            fractions: Where edges are reported.
            silent: Ranks that report nothing.
            told: Receives the reports as (time, kind, rank, arguments) instead of the leader.
        """
        reports = []
        for rank, compute_s in enumerate(computes_s):
            if rank in silent:
                continue
            arrival_s = self.now_s + compute_s
            reports.append((self.now_s, "started", rank, (self.now_s, [])))
            for fraction in fractions:
                at_s = self.now_s + fraction * compute_s
                reports.append((at_s, "edge", rank, (fraction, at_s)))
            reports.append((arrival_s, "asked", rank, (arrival_s,)))
            arrivals_s = [arrival_s] * len(self.sizes)
            reports.append((arrival_s, "arrived", rank, (arrivals_s, self.sizes)))
        reports.sort(key=lambda report: report[0])  # stable: a rank's own order stays
        if told is not None:
            told.extend(reports)
            plans = []
        else:
            plans = self.tell(reports)
        self.iteration += 1
        self.now_s += max(computes_s) + 0.05
        return plans

    def tell(self, reports, iteration=None):
        """Tell the leader these; plans as (kind, rank, plan)."""
        iteration = self.iteration if iteration is None else iteration
        plans = []
        for at_s, kind, rank, arguments in reports:
            tell = getattr(self.leader, kind)
            plan = tell(rank, self.loop, iteration, *arguments, at_s + self.way_s)
            if plan is not None:
                plans.append((kind, rank, plan))
        return plans


def only(plans):
    assert len(plans) == 1
    return plans[0]


def last_in_chain(plan):
    """The rank that the first bucket's schedule puts last; None for a schedule without order."""
    _, _, algorithm, _, arrivals_s = plan.buckets[0]
    return arrivals_s.index(max(arrivals_s)) if algorithm == "slt" else None
