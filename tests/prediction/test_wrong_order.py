"""The cost of wrong orders, simulated on the real arrival patterns."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patallreduce as pat
from benchmarks import traces
from benchmarks.wrong_order import LINK, WAYS, Job, dynamic_arrivals_s, simulate_stage


@pytest.fixture(scope="module", params=traces.names())
def after(request):
    """Mean `after` per way, in M*beta, over the first stage of a trace."""
    rows = [row for row, _ in simulate_stage(traces.read(request.param)[0])]
    return {way: statistics.fmean(row[way] for row in rows) for way in WAYS}


def test_one_of_the_two_ways_is_nearly_as_good_as_knowing_the_order(after):
    assert min(after["predicted"], after["dynamic"]) <= 1.10 * after["perfect"]


def test_auto_is_never_worse_than_ring(after):
    assert after["auto"] <= after["ring"] * (1 + 1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_growing_chain_can_only_be_slower_than_a_known_one(arrivals_s):
    delayed_s = dynamic_arrivals_s(arrivals_s, LINK.latency_s)
    assert all(late >= early for late, early in zip(delayed_s, arrivals_s, strict=True))
    job = Job(len(arrivals_s), 0.01)
    perfect = job.slt(arrivals_s)
    last_s = max(arrivals_s)
    known = job.after(perfect, arrivals_s, last_s)
    assert job.after(perfect, delayed_s, last_s) >= known - 1e-9


def test_a_rank_waits_for_the_next_arrival_and_the_last_is_known_by_elimination():
    delayed_s = dynamic_arrivals_s([0.3, 0.1, 9.0, 0.2], 0.01)
    assert delayed_s == pytest.approx([0.32, 0.22, 9.0, 0.32])


def test_a_reversed_order_costs_more_than_ring():
    """Why the selector must doubt: fine segments, P = 8, everybody a quarter M*beta apart."""
    job = Job(8, 0.4)
    arrivals_s = [0.25 * job.transfer_s * rank for rank in range(8)]
    wrong = job.slt([-arrival_s + 10 for arrival_s in arrivals_s])
    last_s = max(arrivals_s)
    ring = job.after(job.ring, arrivals_s, last_s)
    assert job.after(wrong, arrivals_s, last_s) > ring
    assert job.after(job.slt(arrivals_s), arrivals_s, last_s) < ring
    pat.verify(wrong)
