"""CLV16's measures by hand, its tests against SciPy's own and against cases counted by hand."""

import itertools
import random
import statistics
import sys

import pytest

import patallreduce as pat
from patallreduce.statistics import (
    absorption_s,
    imbalance_s,
    normalised_absorption,
    permutation_p,
    ratio_interval,
    ratio_of_medians,
    run_time_s,
    runs_test,
)


def test_measures_by_hand():
    """Rank 2 comes 5 late; without that it took 8, with it 10: of the 5, 3 were hidden."""
    arrivals_s, finish_s = [1, 1, 6], [9, 10, 11]
    time_s = run_time_s(arrivals_s, finish_s)
    assert time_s == 10
    assert imbalance_s(arrivals_s) == 5
    assert absorption_s(8, time_s, 5) == 3
    assert normalised_absorption(8, time_s, 5) == 3 / 8


def test_who_waits_for_all_absorbs_nothing_and_who_hides_it_all_absorbs_it():
    link, size_bytes, late = pat.Link(1e-6, 1e9), 8_000_000, [0, 0, 0, 0.004]

    def absorbed_s(algorithm):
        together = pat.simulate(pat.schedule(algorithm, 4, 64), link, size_bytes)
        found = pat.simulate(pat.schedule(algorithm, 4, 64, late), link, size_bytes, late)
        return absorption_s(max(together.finish_s), run_time_s(late, found.finish_s), 0.004)

    assert absorbed_s("ring") < absorbed_s("slt") <= 0.004 + 1e-12


def test_bad_measures_are_refused():
    with pytest.raises(ValueError, match="as many arrivals as finishes"):
        run_time_s([0, 1], [2])
    with pytest.raises(ValueError, match="balanced_s: expected a run time > 0"):
        normalised_absorption(0, 1, 1)


def test_a_permutation_test_counted_by_hand():
    """Of the 20 ways to deal six values to two threes one more has 5 / 2: 3, 5, 6 over 1, 2, 4."""
    pytest.importorskip("scipy")
    assert permutation_p([4, 5, 6], [1, 2, 3]) == pytest.approx(2 / 20)
    assert permutation_p([1, 2, 3], [4, 5, 6]) == pytest.approx(1)


def test_a_permutation_test_counted_by_brute_force():
    pytest.importorskip("scipy")
    slower, faster = [5.0, 3.0, 9.0, 4.0, 7.0], [2.0, 6.0, 3.5, 1.0]
    pooled = slower + faster
    ratios = []
    for chosen in itertools.combinations(range(len(pooled)), len(slower)):
        rest = [pooled[n] for n in range(len(pooled)) if n not in chosen]
        ratios.append(ratio_of_medians([pooled[n] for n in chosen], rest))
    as_high = sum(ratio >= ratio_of_medians(slower, faster) * (1 - 1e-12) for ratio in ratios)
    assert permutation_p(slower, faster) == pytest.approx(as_high / len(ratios))


def samples(ratio, count=40, seed=3):
    drawn = random.Random(seed)
    slower = [ratio * (1 + drawn.expovariate(5)) for _ in range(count)]
    return slower, [1 + drawn.expovariate(5) for _ in range(count)]


def test_significant_and_not():
    pytest.importorskip("scipy")
    assert permutation_p(*samples(1.3), permutations=2000) < 0.001
    assert permutation_p(*samples(1.0), permutations=2000) > 0.05
    low, high = ratio_interval(*samples(1.3), resamples=2000)
    assert 1 < low < ratio_of_medians(*samples(1.3)) < high


def test_against_scipy_with_a_plain_statistic():
    stats = pytest.importorskip("scipy.stats")
    slower, faster = samples(1.1, count=15)

    def ratio(a, b):
        return statistics.median(a.tolist()) / statistics.median(b.tolist())

    expected = stats.bootstrap(
        (slower, faster),
        ratio,
        n_resamples=300,
        vectorized=False,
        confidence_level=0.9,
        method="percentile",
        rng=5,
    ).confidence_interval
    found = ratio_interval(slower, faster, confidence=0.9, resamples=300, seed=5)
    assert found == pytest.approx((expected.low, expected.high))

    expected_p = stats.permutation_test(
        (slower, faster),
        ratio,
        n_resamples=300,
        vectorized=False,
        alternative="greater",
        rng=5,
    ).pvalue
    assert permutation_p(slower, faster, permutations=300, seed=5) == pytest.approx(expected_p)


def test_an_interval_covers_what_it_says():
    pytest.importorskip("scipy")
    true_ratio = 1.5
    covered = 0
    for seed in range(60):
        low, high = ratio_interval(*samples(true_ratio, seed=seed), resamples=400, confidence=0.9)
        covered += low <= true_ratio <= high
    assert 47 <= covered <= 60


def test_bad_samples_are_refused():
    with pytest.raises(ValueError, match="at least 2 values in each sample, got 1"):
        ratio_interval([1, 2], [1])
    with pytest.raises(ValueError, match="expected times > 0, got 0"):
        permutation_p([1, 2], [1, 0])


def test_without_scipy_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'patallreduce\[statistics\]'"):
        permutation_p([1, 2], [1, 2])


def test_runs_by_hand():
    """The median of 1 to 8 is 4.5: - - - - + + + + has 2 runs, of 5 expected.

    Of the 70 orders of four + and four -, 2 have 2 runs, and none fewer.
    """
    phases = runs_test([1, 2, 3, 4, 5, 6, 7, 8])
    assert (phases.runs, phases.expected) == (2, 5)
    assert phases.p == pytest.approx(2 * 2 / 70)
    swinging = runs_test([1, 5, 2, 6, 3, 7, 4, 8])
    assert swinging.runs == 8
    assert swinging.p == pytest.approx(2 * 2 / 70)


def test_values_at_the_median_are_left_out():
    assert runs_test([1, 3, 5, 3, 2, 3, 4]) == runs_test([1, 5, 2, 4])


@pytest.mark.parametrize(("high", "low"), [(1, 1), (2, 3), (4, 4), (5, 2), (1, 6)])
def test_all_orders_are_counted(high, low):
    """Every order listed and its runs counted: what the exact probability must follow from."""
    rows = [
        [2.0 if n in chosen else -1.0 for n in range(high + low)]
        for chosen in itertools.combinations(range(high + low), high)
    ]
    runs = [1 + sum(a != b for a, b in itertools.pairwise(row)) for row in rows]
    for row, of_row in zip(rows, runs, strict=True):
        found = runs_test([*row, *[0.0] * 21])  # zeros: the median, and left out
        tail = min(sum(r <= of_row for r in runs), sum(r >= of_row for r in runs))
        assert found.runs == of_row
        assert found.p == pytest.approx(min(1, 2 * tail / len(rows)))


def test_the_normal_approximation_is_near():
    """The handbook's formulas, for as many values as it wants for them."""
    drawn = random.Random(1)
    values = [drawn.random() for _ in range(200)]
    found = runs_test(values)
    high = low = 100
    product = 2 * high * low
    variance = product * (product - 200) / (200**2 * 199)
    z = (abs(found.runs - found.expected) - 0.5) / variance**0.5
    assert found.p == pytest.approx(2 * (1 - statistics.NormalDist().cdf(z)), abs=0.01)


def test_serial_correlation_is_found():
    drawn = random.Random(2)
    level, walk = 0.0, []
    for _ in range(100):
        level = 0.8 * level + drawn.gauss(0, 1)
        walk.append(level)
    assert runs_test(walk).p < 0.01
    assert runs_test(walk).runs < runs_test(walk).expected


def test_constant_values_have_no_runs():
    with pytest.raises(ValueError, match="0 above and 0 below"):
        runs_test([1, 1, 1])
