"""A job of which a leader's guard sees whatever it is told to take."""

import random

import patallreduce as pat
from patallreduce import _core

RANKS = 4
LINK = pat.Link(50e-6, 25e6, 5e9)
SIZES = [(1 << 18, 4), (1 << 18, 4)]  # 42 ms each
COMPUTE_S = 0.1


class Job:
    """A job whose iterations take what they are told to take, with plans and without.

    Args:
        planned_s: After the last arrival, of an iteration with a plan.
        plain_s: Of one without.
        lateness: (iteration) -> per rank, what it computes longer.
        freed_s: How much earlier than the others the last rank goes on after a plan.
        longer: With a plan all compute so many times as long.
        pause_s: After each iteration of `pauses`.
        pauses: (iteration) -> whether a pause comes after it: every fifth one.
        change_s: What the first iteration of either way takes longer.
    """

    def __init__(
        self,
        planned_s,
        plain_s,
        lateness=lambda _: [0.0] * RANKS,
        *,
        freed_s=0.0,
        change_s=0.0,
        longer=1.0,
        pause_s=0.0,
        pauses=lambda iteration: iteration % 5 == 0,
    ):
        self.leader = _core.Leader(RANKS, _core.Planner(RANKS, LINK), 1 / LINK.bytes_per_s)
        self.planned_s, self.plain_s, self.freed_s = planned_s, plain_s, freed_s
        self.change_s, self.longer, self.pause_s = change_s, longer, pause_s
        self.lateness, self.pauses = lateness, pauses
        self.draw = random.Random(1)
        self.start_s = [100.0] * RANKS
        self.finish_s = [[] for _ in range(RANKS)]
        self.iteration = 0
        self.with_plans = []

    def iterate(self):
        # The plan of the iteration before is what disturbs.
        longer = self.longer if self.with_plans[-1:] == [True] else 1.0
        compute_s = [longer * (COMPUTE_S + late_s) for late_s in self.lateness(self.iteration)]
        reports = []
        for rank in range(RANKS):
            start_s, arrival_s = self.start_s[rank], self.start_s[rank] + compute_s[rank]
            reports.append((start_s, "started", rank, (start_s, self.finish_s[rank])))
            for fraction in (0.25, 0.5, 0.75):
                at_s = start_s + fraction * (arrival_s - start_s)
                reports.append((at_s, "edge", rank, (fraction, at_s)))
            reports.append((arrival_s, "asked", rank, (arrival_s,)))
            reports.append((arrival_s, "arrived", rank, ([arrival_s] * len(SIZES), SIZES)))
        reports.sort(key=lambda report: report[0])
        plans = []
        for at_s, kind, rank, arguments in reports:
            plan = getattr(self.leader, kind)(rank, 1, self.iteration, *arguments, at_s)
            if plan is not None:
                plans.append(plan)
        (plan,) = plans
        self.with_plans.append(bool(plan.buckets))
        took_s = self.planned_s if plan.buckets else self.plain_s
        took_s *= 1 + 0.02 * self.draw.random()
        took_s += self.change_s * (self.with_plans[-2:] in ([False, True], [True, False]))
        arrivals_s = [self.start_s[rank] + compute_s[rank] for rank in range(RANKS)]
        last_s = max(arrivals_s)
        finish_s = last_s + took_s
        for rank in range(RANKS):
            freed = bool(plan.buckets) and arrivals_s[rank] == last_s
            rank_s = finish_s - min(self.freed_s, took_s) * freed
            self.finish_s[rank] = [rank_s] * len(SIZES)
            self.start_s[rank] = rank_s + self.pause_s * self.pauses(self.iteration)
        self.iteration += 1
        return finish_s

    def run(self, iterations):
        ends_s = [self.iterate() for _ in range(iterations + 1)]
        return (ends_s[-1] - ends_s[0]) / iterations


def one_late(iteration):
    return [0.0, 0.3, 0.0, 0.0]


def one_late_at_random(iteration):
    late = random.Random(iteration).randrange(RANKS)
    return [0.2 * (rank == late) for rank in range(RANKS)]


def stalls(iteration):
    draw = random.Random(iteration)
    late = draw.randrange(RANKS)
    return [0.3 * (rank == late and draw.random() < 0.1) for rank in range(RANKS)]


def speeds(iteration):
    return [0.05 * rank for rank in range(RANKS)]


PATTERNS = [one_late, one_late_at_random, stalls, speeds]
