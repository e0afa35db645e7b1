"""A rank's offset to the leader's clock: how wrong it can be, and what cannot disturb it."""

import math

from hypothesis import given
from hypothesis import strategies as st

from patallreduce import _core

trips = st.lists(
    st.tuples(st.floats(1e-6, 0.5), st.floats(1e-6, 0.5)), min_size=1, max_size=40
)  # there, back


def sampled(offset_s, there_and_back, start_s=1000.0):
    clock = _core.ClockOffset()
    for there_s, back_s in there_and_back:
        clock.sample(start_s, start_s + there_s + offset_s, start_s + there_s + back_s)
        start_s += 1.0
    return clock


@given(st.floats(-1e4, 1e4), trips)
def test_the_error_is_at_most_half_the_shortest_of_the_last_trips(offset_s, there_and_back):
    clock = sampled(offset_s, there_and_back)
    shortest_s = min(map(sum, there_and_back[-16:]))
    assert math.isclose(clock.error_s, shortest_s / 2, abs_tol=1e-9)
    assert abs(clock.offset_s - offset_s) <= shortest_s / 2 + 1e-9
    assert clock.samples == len(there_and_back)


def test_before_the_first_sample_the_clocks_are_taken_to_agree():
    clock = _core.ClockOffset()
    assert (clock.samples, clock.offset_s, clock.error_s) == (0, 0, 0)


def test_a_drifting_clock_is_followed():
    """The best trip is old: it leaves with its age, however short it was."""
    clock = sampled(5.0, [(1e-6, 1e-6)])
    assert math.isclose(clock.offset_s, 5.0, abs_tol=1e-6)
    for i in range(16):
        clock.sample(2000.0 + i, 2000.0 + i + 1e-3 + 7.0, 2000.0 + i + 2e-3)
    assert math.isclose(clock.offset_s, 7.0, abs_tol=1e-6)


def test_what_cannot_be_is_no_sample():
    clock = sampled(5.0, [(1e-3, 1e-3)])
    for bad in (math.nan, math.inf, -math.inf):
        clock.sample(bad, 1.0, 2.0)
        clock.sample(1.0, bad, 2.0)
        clock.sample(1.0, 1.0, bad)
    clock.sample(2.0, 1.0, 1.0)  # came back before it left
    assert clock.samples == 1
    assert math.isclose(clock.offset_s, 5.0, abs_tol=1e-6)
