"""Chaos (chaos.py says of what kind): every sum exact, no hang, all ranks on the same plan.

The short runs are always made; `make test-all` makes 10,000 iterations.
"""

import dataclasses

import pytest

from tests.monitor.chaos import (
    Ran,
    Weather,
    figures,
    run_loopback,
    run_on_this_rank,
    same_schedules,
)

pytestmark = pytest.mark.alone  # it measures times

CALM = Weather(60, wrong=0.0, delay_s=0.0, skew_s=0.0)


def assert_chaotic(seen, planned=0.3):
    """It says nothing if hardly anything was planned, or always the same."""
    assert seen["planned"] > planned
    assert seen["schedules"] > 2
    assert set(seen["algorithms"]) - {"ring"}, "whichever plans prefer"


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_chaos_among_threads(ranks):
    assert_chaotic(run_loopback(ranks, Weather(120, seed=ranks)))


def test_chaos_without_delays():
    assert_chaotic(run_loopback(4, Weather(120, seed=4, delay_s=0.0, compute_s=3e-4, late_s=1e-3)))


@pytest.mark.parametrize("ranks", [2, 6])
def test_chaos_while_the_monitors_end_one_after_the_other(ranks):
    assert_chaotic(run_loopback(ranks, Weather(100, seed=40 + ranks, monitors_end=True)), 0.1)


@pytest.mark.parametrize("ranks", [2, 4])
def test_chaos_among_processes(processes, ranks):
    weather = Weather(80, seed=20 + ranks)
    ran = processes.run(ranks, run_on_this_rank, weather, timeout_s=60)
    same_schedules(ran)
    assert_chaotic(figures(ran, weather, 0))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8])
def test_long_chaos_among_threads(ranks):
    seen = run_loopback(ranks, Weather(1200, seed=100 + ranks))
    print(seen)
    assert_chaotic(seen)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 8])
def test_long_chaos_among_processes(processes, ranks):
    weather = Weather(800, seed=200 + ranks)
    ran = processes.run(ranks, run_on_this_rank, weather, timeout_s=300)
    same_schedules(ran)
    seen = figures(ran, weather, 0)
    print(seen)
    assert_chaotic(seen)


def test_a_rank_on_another_plan_would_be_found():
    ran = [[Ran(1, i, 0, 5000, "ring with 4 segments", True) for i in range(3)] for _ in range(3)]
    same_schedules(ran)
    ran[1][2] = dataclasses.replace(ran[1][2], schedule="slt with 4 segments")
    with pytest.raises(AssertionError, match="rank 1 ran"):
        same_schedules(ran)


def test_in_calm_weather_the_same_loop_is_planned_as_well():
    assert run_loopback(3, CALM)["planned"] > 0.3
