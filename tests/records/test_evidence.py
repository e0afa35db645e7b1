"""Bets on who comes last: fair if ranks are alike, and soon certain of one that is always last."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patallreduce.records.evidence import CERTAIN, evidence
from tests.records.made_up import make_iteration


@given(st.integers(2, 40))
def test_bets_are_fair_if_ranks_are_alike(ranks):
    iteration = make_iteration(0, [float(rank) for rank in range(ranks)])
    paid = [math.exp(evidence([iteration], rank)) for rank in range(ranks)]

    assert sum(paid) / ranks == pytest.approx(1)
    assert paid == sorted(paid)


@pytest.mark.parametrize(("ranks", "iterations"), [(2, 31), (4, 18), (8, 12)])
def test_a_rank_that_is_always_last_is_certain_after(ranks, iterations):
    late = [make_iteration(n, [1.0] * (ranks - 1) + [2.0]) for n in range(iterations)]

    assert evidence(late[1:], ranks - 1) < CERTAIN <= evidence(late, ranks - 1)


def test_ranks_that_arrive_together_are_late_by_no_bet():
    together = [make_iteration(n, [1.0] * 4) for n in range(100)]

    assert evidence(together, 0) < 0
