"""What the leader's records keep of the edges that ranks reach."""

import math

import pytest

from tests.monitor.replay import Job


def test_the_leader_keeps_when_ranks_reached_which_edge():
    job = Job(2)
    job.iterate([0.4, 0.8], fractions=(0.75, 0.25))
    assert job.leader.records()[-1]["progress"] == [
        {"fraction": 0.25, "at_s": pytest.approx([100.1, 100.2])},
        {"fraction": 0.75, "at_s": pytest.approx([100.3, 100.6])},
    ]


def test_edges_that_no_computation_has_are_not_kept_and_of_others_sixteen():
    job = Job(2)
    many = [k / 100 for k in range(1, 40)]
    job.iterate([0.4, 0.8], fractions=(-1, 0, 1, 2, math.inf, *many), silent=[1])
    job.leader.edge(0, job.loop, 0, math.nan, 100.2, 100.2)
    kept = job.leader.records()[-1]["progress"]
    assert [edge["fraction"] for edge in kept] == many[:16]
    assert all(math.isnan(edge["at_s"][1]) for edge in kept)
