"""What is thought of times that were not measured, and rules that follow from it."""

import math

import pytest

from patallreduce.decisions.fit import fitted
from patallreduce.decisions.regression import Deviations, Regression
from patallreduce.decisions.times import Case, Method, Times

RING, TREE, CUT = Method("ring"), Method("two_tree"), Method("ring", 4096)
KIB = 1 << 10
LONG = Deviations(short=0.0)  # as where nothing is all latency


def case_of(size):
    return Case("all_reduce", 4, 4, size, False)


def prices(case):
    """A tree is thought the faster one below 64 KiB."""
    return {RING: 2e-3 + case.message_bytes * 1e-8, TREE: 1e-3 + case.message_bytes * 2.5e-8}


def times_of(*measured, goes=400):
    """Each of them so often that there is no doubt."""
    times = Times()
    for size, method, seconds in measured:
        for _ in range(goes):
            times.add(case_of(size), method, [seconds])
    return times


def estimate(times, size, method, measured_sizes=(KIB, 64 * KIB, 1024 * KIB)):
    regression = Regression(times, map(case_of, measured_sizes), prices, LONG)
    return regression.estimates({case_of(size): [method]})[case_of(size)][method]


def test_without_a_measurement_the_model_counts_and_is_in_doubt():
    found = estimate(Times(), 64 * KIB, RING)
    price_s = prices(case_of(64 * KIB))[RING]
    assert found.seconds == pytest.approx(price_s)
    assert found.error == pytest.approx(math.hypot(0.6, 0.15))


def test_what_is_all_latency_is_in_more_doubt():
    sizes = [KIB, 64 * KIB, 1 << 30]
    regression = Regression(Times(), map(case_of, sizes), prices, Deviations(short=0.4))
    for size, share in zip(
        sizes, (1.0, prices(case_of(KIB))[RING] / prices(case_of(sizes[1]))[RING], 0.0), strict=True
    ):
        [found] = regression.estimates({case_of(size): [RING]})[case_of(size)].values()
        assert found.error == pytest.approx(math.hypot(0.6, 0.15, 0.4 * share), rel=1e-3)


def test_what_was_measured_often_is_so():
    times = times_of((64 * KIB, RING, 5e-3), (64 * KIB, Method("gloo"), 1e-6))
    found = estimate(times, 64 * KIB, RING)
    assert found.seconds == pytest.approx(5e-3, rel=0.01)
    assert found.error < 0.04


@pytest.mark.parametrize("calls", [0.0, 1.0, 4.0])
def test_seconds_beside_the_messages_are_found(calls):
    """Each call takes so many times the least price more: of a size nobody measured, too."""
    sizes = [KIB, 4 * KIB, 16 * KIB, 64 * KIB]
    call_s = calls * min(prices(case_of(KIB)).values())
    of_all = [
        (size, method, prices(case_of(size))[method] + call_s)
        for size in sizes
        for method in (RING, TREE)
    ]
    times = times_of(*of_all)
    for method in (RING, TREE):
        price_s = prices(case_of(1024 * KIB))[method]
        found = estimate(times, 1024 * KIB, method, [*sizes, 1024 * KIB])
        assert found.seconds == pytest.approx(price_s + call_s, rel=0.01)


def test_a_measurement_tells_of_sizes_near_it_and_of_other_methods_there():
    slower = 5e-3 / prices(case_of(64 * KIB))[RING]
    times = times_of((64 * KIB, RING, 5e-3))
    size = 128 * KIB
    own, other, far = (
        estimate(times, *asked) for asked in ((size, RING), (size, TREE), (1 << 30, RING))
    )
    for found, method in ((own, RING), (other, TREE)):
        assert 1 < found.seconds / prices(case_of(size))[method] < slower
    assert own.seconds / prices(case_of(size))[RING] > 0.9 * slower
    assert own.error < other.error < math.hypot(0.6, 0.15)
    assert far.error == pytest.approx(math.hypot(0.6, 0.15), rel=0.1)


def test_a_kink_is_no_bad_luck():
    """From one size to the next a method may take half as long again, and a third one as before."""
    slower = {16: 1.0, 32: 1.5, 64: 1.5}
    times = Times()
    for size, factor in slower.items():
        for _ in range(3):
            seconds = factor * prices(case_of(size * KIB))[TREE]
            times.add(case_of(size * KIB), TREE, [0.95 * seconds, 1.05 * seconds])
    for size, factor in slower.items():
        found = estimate(times, size * KIB, TREE, [size * KIB for size in slower])
        assert found.seconds == pytest.approx(factor * prices(case_of(size * KIB))[TREE], rel=0.1)


def test_between_two_sizes_what_changes_may_come_anywhere():
    """A tree takes half as long again, a ring does not: a log of 0.41 is to be explained.

    By hand, of variances over an octave of 0.025 (shared), 0.0032 (own, each) and 0.0018 (of two
    measurements): likeliest are 0.19 shared, 0.14 of the tree's own and -0.12 of the ring's.
    """
    sizes = [16 * KIB, 32 * KIB]
    at = case_of(16 * KIB * math.sqrt(2))
    times, alike = (
        times_of(
            *((size, method, prices(case_of(size))[method]) for size in sizes for method in others),
            (sizes[0], TREE, prices(case_of(sizes[0]))[TREE]),
            (sizes[1], TREE, factor * prices(case_of(sizes[1]))[TREE]),
        )
        for factor, others in ((1.5, [RING]), (1.0, [RING]))
    )
    for method, change in ((TREE, 0.14), (RING, -0.12)):
        kink, none = (estimate(of, at.message_bytes, method, sizes) for of in (times, alike))
        assert kink.error**2 - none.error**2 == pytest.approx(change**2 / 12, rel=0.2)
    regression = Regression(times, map(case_of, sizes), prices, LONG)
    found = regression.estimates({at: [TREE]})[at][TREE]
    assert regression.error_after(at, TREE, found) < 0.7 * found.error
    there = case_of(sizes[0])
    known = regression.estimates({there: [TREE]})[there][TREE]
    assert regression.error_after(there, TREE, known) == pytest.approx(known.error, rel=0.01)


def test_likelihood_of_two_measurements():
    """Worked out by hand: deviations of +0.2 and -0.1 that share all but 0.1 of their variance."""
    sizes = (KIB, 2 * KIB)
    logs = (0.2, -0.1)
    model_s = [prices(case_of(size))[RING] for size in sizes]
    times = times_of(
        *(
            (size, RING, s * math.exp(log))
            for size, s, log in zip(sizes, model_s, logs, strict=True)
        ),
        goes=10**4,
    )
    deviations = Deviations(shared=0.3, shared_octaves=1e6, own=0.0, short=0.0, rest=0.1)
    found = Regression(times, map(case_of, sizes), prices, deviations).log_likelihood()
    # Variances of 0.09 + 0.01, covariance of 0.09; so the determinant is 0.0019.
    misfit = (0.1 * 0.2**2 + 2 * 0.09 * 0.2 * 0.1 + 0.1 * 0.1**2) / 0.0019
    expected = -misfit / 2 - math.log(0.0019) / 2 - math.log(2 * math.pi)
    assert found == pytest.approx(expected, rel=1e-3)


def test_a_cut_tells_of_as_many_segments_at_sizes_near():
    times = times_of((64 * KIB, RING, 5e-3), (64 * KIB, CUT, 4.5e-3))
    assert estimate(times, 64 * KIB, CUT).seconds == pytest.approx(4.5e-3, rel=0.02)

    def gain(size, segment_bytes):
        cut = Method(CUT.algorithm, segment_bytes)
        return estimate(times, size, RING).seconds / estimate(times, size, cut).seconds

    there = gain(64 * KIB, CUT.segment_bytes)
    assert 1.05 < there < 1.12
    assert gain(128 * KIB, 2 * CUT.segment_bytes) == pytest.approx(there, abs=0.015)
    assert 1.02 < gain(128 * KIB, CUT.segment_bytes) < 0.5 * (1 + there) + 0.015
    assert gain(2**14 * 64 * KIB, 2**14 * CUT.segment_bytes) == pytest.approx(1, abs=0.02)
    elsewhere = [estimate(times, 128 * KIB, method) for method in (RING, CUT)]
    assert elsewhere[0].error < elsewhere[1].error


def rules_of(times, sizes=()):
    rules = fitted(times, {}, prices, map(case_of, sizes)).rules
    return [(*rule.message_bytes, str(rule.method), rule.measured) for rule in rules]


def test_a_border_lies_where_times_cross():
    sizes = (16 * KIB, 256 * KIB)
    times = times_of(*((s, m, prices(case_of(s))[m]) for s in sizes for m in (RING, TREE)))
    (_, border, first, _), (_, last, second, _) = rules_of(times)
    assert (first, second, last) == ("two_tree", "ring", math.inf)
    assert 45 * KIB < border < 95 * KIB  # 65 KiB, to half an octave


def test_a_method_may_be_the_fastest_between_two_sizes_that_is_so_at_neither():
    def flat(_):
        return {TREE: 1e-3, RING: 1e-3, Method("rabenseifner"): 1e-3}

    times = times_of(
        (4 * KIB, TREE, 1e-3), (4 * KIB, RING, 4e-3), (4 * KIB, Method("rabenseifner"), 1.2e-3),
        (64 * KIB, TREE, 4e-3), (64 * KIB, RING, 1e-3), (64 * KIB, Method("rabenseifner"), 1.2e-3),
    )  # fmt: skip
    assert [str(rule.method) for rule in fitted(times, {}, flat).rules] == [
        "two_tree", "rabenseifner", "ring",
    ]  # fmt: skip


def test_what_was_measured_once_has_to_win_more_than_by_luck():
    often = [1e-3, 1.3e-3] * 200  # a mean of 1.15 ms, off by a seventh each time
    for goes, method in ((1, "two_tree"), (100, "ring")):
        times = Times()
        for one in often:
            times.add(case_of(4 * KIB), TREE, [one])
        for _ in range(goes):
            times.add(case_of(4 * KIB), RING, [1e-3])
        (rule,) = fitted(times, {}, lambda _: {RING: 1e-3, TREE: 1e-3}).rules
        assert str(rule.method) == method


def test_sizes_that_were_not_measured_are_told():
    times = times_of((4 * KIB, TREE, 1e-3), (4 * KIB, RING, 2e-3))
    assert [rule[3] for rule in rules_of(times, [4 * KIB, 1 << 30])] == [True, False]


def test_a_spread_is_of_time():
    """Delays add up: what takes four times as long differs half as much, of its time."""
    times = Times()
    for n in range(20):
        times.add(case_of(4 * KIB), RING, [1e-3 if n % 2 else 1.2e-3])
    assert times.spread(4e-3) == pytest.approx(times.spread(1e-3) / 2)
    assert 0.05 < times.spread(1e-3) < 0.3
    assert times.error(case_of(4 * KIB), RING) == pytest.approx(
        times.spread(1.1e-3) / math.sqrt(20) * (1 + 1 / 20)
    )


def test_a_single_go_is_in_twice_as_much_doubt_as_one_of_many():
    times = Times()
    assert times.error_of(1e-3, 1) == 2 * times.spread(1e-3)
    assert times.error_of(1e-3, 400) == pytest.approx(times.spread(1e-3) / 20, rel=0.003)
