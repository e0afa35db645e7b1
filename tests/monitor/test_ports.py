"""The leader hears what ranks send, and plans for ports as wide as they are."""

import pytest

import patallreduce as pat
from patallreduce import _core

RANKS = 8
WIDE = 25e6
LINK = pat.Link(50e-6, WIDE, 5e9)
SIZES = [(1 << 20, 4)]
COMPUTE_S = 0.1


class Job:
    """Ranks that all arrive together, on ports of which they tell what they sent."""

    def __init__(self, node_of=()):
        self.planner = _core.Planner(RANKS, LINK, node_of=node_of)
        self.leader = _core.Leader(RANKS, self.planner, 1 / WIDE)
        self.ports = [WIDE] * RANKS
        self.plain = "ring"
        self.ran = []
        self.iteration = 0
        self.now_s = 100.0
        self.finish_s = []

    def flows(self, rank):
        """(to, bytes, busy_s) of the iteration before."""
        if self.ran[-1] == "ring":
            to = (rank + 1) % RANKS
            return [(to, 7e6, 7e6 / min(self.ports[rank], self.ports[to]))]
        others = [to for to in range(RANKS) if to != rank]
        return [(to, 1e6, 7e6 / min(self.ports[rank], self.ports[to])) for to in others]

    def took_s(self):
        """Of an all-reduce: a ring goes as fast as its narrowest port."""
        return 2 * 7 / 8 * (4 << 20) / min(self.ports) / (1 if self.ran[-1] == "ring" else 1.75)

    def iterate(self):
        plans, number = [], self.iteration
        arrival_s = self.now_s + COMPUTE_S
        for rank in range(RANKS):
            if number > 0 and self.ran[-1] in ("ring", "direct_exchange"):
                used = (rank, 1, number, number - 1, self.flows(rank), self.now_s)
                plans.append(self.leader.link_used(*used))
            start = (rank, 1, number, self.now_s, self.finish_s, self.now_s)
            plans.append(self.leader.started(*start))
        half_s = self.now_s + COMPUTE_S / 2
        for rank in range(RANKS):
            plans.append(self.leader.edge(rank, 1, number, 0.5, half_s, half_s))
        for rank in range(RANKS):
            plans.append(self.leader.asked(rank, 1, number, arrival_s, arrival_s))
        for rank in range(RANKS):
            arrived = (rank, 1, number, [arrival_s], SIZES, arrival_s, self.plain)
            plans.append(self.leader.arrived(*arrived))
        (plan,) = (plan for plan in plans if plan is not None)
        self.ran.append(plan.buckets[0][2] if plan.buckets else self.plain)
        self.now_s = arrival_s + self.took_s()
        self.finish_s = [self.now_s]
        self.iteration += 1

    def run(self, iterations):
        for _ in range(iterations):
            self.iterate()
        return self.ran[-iterations:]


def test_a_port_that_changes_is_planned_for():
    job = Job()
    assert set(job.run(30)) == {"ring"}
    assert job.planner.ports == [WIDE] * RANKS
    job.ports[3] = WIDE / 2
    job.run(10)
    assert job.planner.ports == pytest.approx(job.ports)
    assert job.run(20).count("direct_exchange") >= 16, "but for what the guard tries"
    assert job.leader.records()[-1]["ports"] == pytest.approx(job.ports)
    job.ports[3] = WIDE
    job.run(10)
    assert job.planner.ports == [WIDE] * RANKS
    assert set(job.run(10)) == {"ring"}


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_flows_that_wait_for_data_say_nothing_of_ports(share):
    """All but one have nothing to send for a part of the time; so iterations take longer."""
    job = Job()
    job.run(10)
    full, took_s = job.flows, job.took_s()
    job.took_s = lambda: 2 * took_s
    job.flows = lambda rank: [
        (to, sent, busy_s if rank == 2 else busy_s / share) for to, sent, busy_s in full(rank)
    ]
    job.run(20)
    assert job.planner.ports == [WIDE] * RANKS


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_port_is_not_what_iterations_do_not_show(factor):
    """Narrower than before, though they take no longer; wider than any was."""
    job = Job()
    job.run(10)
    took_s = job.took_s()
    job.took_s = lambda: took_s
    job.ports[3] *= factor
    job.ports[4] *= factor
    for _ in range(20):
        job.iterate()
        assert job.planner.ports == [WIDE] * RANKS
    paces = job.leader.pace(1)
    assert sum(pace["iterations"] for pace in paces.values()) >= 20, "nothing was forgotten"


def test_what_chains_send_says_nothing():
    job = Job()
    job.plain = "slt"
    job.run(10)
    job.ports[3] = WIDE / 2
    job.run(20)
    assert job.planner.ports == [WIDE] * RANKS


def test_ranks_that_share_a_port_are_not_told_apart():
    job = Job(node_of=[rank // 2 for rank in range(RANKS)])
    assert job.planner.ports == []
    job.run(10)
    job.ports[3] = WIDE / 2
    job.run(20)
    assert job.planner.ports == []
    with pytest.raises(pat.ScheduleError, match="set_ports: expected a bandwidth > 0 for each"):
        job.planner.ports = [WIDE] * RANKS


@pytest.mark.parametrize("ports", [[], [WIDE] * 7, [0.0] * RANKS, [float("nan")] * RANKS])
def test_ports_that_make_no_sense(ports):
    planner = _core.Planner(RANKS, LINK)
    with pytest.raises(pat.ScheduleError, match="set_ports: expected a bandwidth > 0 for each"):
        planner.ports = ports
    assert planner.ports == [WIDE] * RANKS


def test_a_planner_with_the_ports_of_its_link_again_plans_as_before():
    together = [[0.0] * RANKS]
    planner = _core.Planner(RANKS, LINK)
    before = planner.plan(SIZES, together)
    planner.ports = [WIDE] * 7 + [WIDE / 4]
    narrow = planner.plan(SIZES, together)
    assert narrow[0][0][0] == "direct_exchange"
    assert narrow[1] < narrow[2]
    planner.ports = [WIDE] * RANKS
    assert planner.plan(SIZES, together) == before
