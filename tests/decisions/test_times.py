"""What was measured, in order: when everything was slow is told from what is slow."""

import random

import pytest

from patallreduce.decisions.times import Case, Method, Times

RING, TREE, CHAIN = map(Method, ("ring", "two_tree", "slt"))
SECONDS = {RING: 1e-3, TREE: 1.2e-3, CHAIN: 1.1e-3}
CASES = [Case("all_reduce", 4, 4, 4096 << n, False) for n in range(4)]


def test_what_was_measured_when_all_was_slow_is_not_slow():
    """The ring mostly while the machine is half as fast, the tree while it is not."""
    times, drawn = Times(), random.Random(3)
    for slow in (False, True, False, True):
        for _ in range(1000):
            rare = drawn.random() < 0.25
            method = CHAIN if drawn.random() < 0.3 else RING if slow != rare else TREE
            luck = drawn.uniform(0.9, 1.1)
            times.add(drawn.choice(CASES), method, [SECONDS[method] * luck * (2 if slow else 1)])
    for case in CASES:
        assert times.means_s(case)[RING] > 1.2 * times.means_s(case)[TREE]
        steady_s = times.steadied().means_s(case)
        assert steady_s[TREE] / steady_s[RING] == pytest.approx(1.2, rel=0.06)
        assert steady_s[CHAIN] / steady_s[RING] == pytest.approx(1.1, rel=0.06)


def test_of_a_steady_machine_nothing_changes_much():
    times, drawn = Times(), random.Random(4)
    for _ in range(400):
        method = drawn.choice(list(SECONDS))
        times.add(drawn.choice(CASES), method, [SECONDS[method] * drawn.uniform(0.9, 1.1)] * 3)
    for case in CASES:
        before_s, after_s = times.means_s(case), times.steadied().means_s(case)
        assert after_s == {m: pytest.approx(s, rel=0.02) for m, s in before_s.items()}


def test_what_is_too_little_to_tell_stays():
    times = Times()
    assert times.steadied().cases() == []
    for seconds in ([1e-3], [2e-3, 3e-3], [4e-3]):
        times.add(CASES[0], RING, seconds)
    assert list(times.steadied().lines()) == list(times.lines())


def test_lines_are_in_the_order_of_what_was_added():
    times = Times()
    for case, method in ((CASES[1], TREE), (CASES[0], RING), (CASES[1], TREE), (CASES[0], CHAIN)):
        times.add(case, method, [1e-3])
    assert [("two_tree" in line, "8192" in line) for line in times.lines()] == [
        *[(True, True), (False, False), (True, True), (False, False)]
    ]
