"""Bets on who is late: fair if ranks are alike, and soon certain of one that always is."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patallreduce.records.evidence import CERTAIN, evidence
from tests.records.made_up import make_iteration


def lates(ranks, iterations, *gaps_s):
    """The last of the ranks is late, by these gaps in turn; the others are apart by 1 s in all."""
    others_s = [rank / (ranks - 2) if ranks > 2 else 1.0 for rank in range(ranks - 1)]
    gaps = itertools.islice(itertools.cycle(gaps_s), iterations)
    return [make_iteration(n, [*others_s, 1.0 + gap_s]) for n, gap_s in enumerate(gaps)]


def certain_after(ranks, *gaps_s):
    return next(
        n for n in itertools.count(1) if evidence(lates(ranks, n, *gaps_s), ranks - 1) >= CERTAIN
    )


@given(st.integers(2, 40))
def test_bets_on_places_are_fair_if_ranks_are_alike(ranks):
    iteration = make_iteration(0, [float(rank) for rank in range(ranks)])
    paid = [math.exp(evidence([iteration], rank)) for rank in range(ranks)]

    assert sum(paid) / ranks == pytest.approx(1)
    assert paid == sorted(paid)


@given(
    st.integers(2, 5),
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
    st.floats(0.1, 8.0),
)
def test_no_distribution_makes_a_gap_more_likely_than_its_bet_says(ranks, weights, behind_s):
    """Ranks that arrive, independent of each other, after 0, 1, 2, ... s with these weights."""
    before = make_iteration(0, [0.0] * (ranks - 1) + [behind_s])
    made = 0.0
    for arrivals_s in itertools.product(range(len(weights)), repeat=ranks):
        probability = math.prod(weights[at] / sum(weights) for at in arrivals_s)
        iteration = make_iteration(1, list(map(float, arrivals_s)))
        made += probability * math.exp(evidence([before, iteration], ranks - 1))

    assert made <= math.exp(evidence([before], ranks - 1)) * (1 + 1e-9)


@pytest.mark.parametrize(("ranks", "iterations"), [(2, 32), (4, 18), (8, 12)])
def test_a_rank_that_is_always_last_is_certain_after(ranks, iterations):
    assert certain_after(ranks, 0.5, 4.0, 10.0) == iterations


@pytest.mark.parametrize(("ranks", "iterations"), [(2, 28), (3, 11), (4, 9), (8, 7), (16, 6)])
def test_a_rank_that_is_always_last_by_a_gap_is_certain_after(ranks, iterations):
    assert certain_after(ranks, 2.0) == iterations


def test_a_gap_is_one_only_where_the_others_are_closer_together():
    assert certain_after(4, 0.9) == 18
    assert certain_after(4, 1.1) == 9


def test_what_was_lost_before_delays_nothing():
    others = [make_iteration(n, [0.0, 0.0, 5.0, 1.0]) for n in range(20)]

    assert evidence(others, 3) < 0
    assert evidence(others + lates(4, 9, 2.0), 3) >= CERTAIN


def test_ranks_that_arrive_together_are_late_by_no_bet():
    together = [make_iteration(n, [1.0] * 4) for n in range(100)]

    assert evidence(together, 0) < 0


NOISE = {
    "normal": lambda draw: draw.gauss(0, 1),
    "lognormal": lambda draw: draw.lognormvariate(0, 1),
    "Pareto, 1.5": lambda draw: draw.paretovariate(1.5),
    "Cauchy": lambda draw: abs(math.tan(math.pi * (draw.random() - 0.5))),
    "long or short": lambda draw: draw.gauss(0, 0.01) + (draw.random() < 0.25),
}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("noise", NOISE)
def test_bets_make_little_of_noise(noise, ranks):
    draw = random.Random(ranks)
    made = [make_iteration(n, [NOISE[noise](draw) for _ in range(ranks)]) for n in range(2000)]
    ends = range(40, len(made) + 1, 20)
    most = max(evidence(made[end - 40 : end], rank) for end in ends for rank in range(ranks))
    assert 0 < most < CERTAIN / 2
