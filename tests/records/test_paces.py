"""What plans win, from records of iterations with them and without."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patallreduce.records.paces import overhead_s, paces
from patallreduce.records.stragglers import straggler_report
from tests.records.made_up import iterations, make_iteration

PLANNED_S, PLAIN_S = 1.0, 1.5


def job(ways):
    """Two ranks compute 2 and 5 s; ways: P with a plan, a dot without."""
    at_s, made = 0.0, []
    for number, way in enumerate(ways):
        takes_s = PLANNED_S if way == "P" else PLAIN_S
        iteration = make_iteration(number, at_s=at_s, communication_s=takes_s)
        buckets = tuple(replace(b, planned=way == "P") for b in iteration.buckets)
        made.append(replace(iteration, buckets=buckets))
        at_s = iteration.finish_s[0]
    return made


def test_the_overhead_is_what_the_last_rank_did_not_compute():
    before, iteration = job("PP")
    assert overhead_s(before, iteration) == pytest.approx(PLANNED_S)
    assert math.isnan(overhead_s(before, replace(iteration, iteration=7)))
    unknown = replace(iteration, finish_s=(math.nan, 1.0))
    assert math.isnan(overhead_s(before, unknown))


def test_plans_win_the_difference():
    found = paces(job("PPPPP...PPPP"))
    assert (found.planned, found.plain) == (4 + 3, 2)
    assert found.won_s == pytest.approx(PLAIN_S - PLANNED_S)


def test_only_iterations_near_each_other_are_compared():
    assert paces(job("PP.." + 100 * "P")).planned == 1 + 19


@pytest.mark.parametrize("ways", ["", "P", "PPPP", "....", "P.P.P.P."])
def test_without_both_kinds_nothing_is_known(ways):
    assert math.isnan(paces(job(ways)).won_s)


def test_the_report_says_it():
    text = str(straggler_report(job("PPPPP...PPPP")))
    won = "plans win 500.0 ms per iteration: 1000.0 ms with one (7 measured), 1500.0 without (2)"
    assert won in text
    assert "what plans win is not known" in str(straggler_report(job("PPPP")))


@given(st.lists(iterations(), max_size=3))
@settings(max_examples=50)
def test_whatever_is_recorded_there_is_an_answer(made):
    assert paces(made).planned <= len(made)
