"""Each component alone, on sequences whose right answer is known."""

import math

import pytest

from patallreduce import ScheduleError
from patallreduce._core import Predictor, component_names, predict_component


def iterate(predictor, arrivals_s, edges=(), start_s=0.0):
    """One whole iteration; times count from `start_s`."""
    predictor.start(start_s)
    for fraction, offset_s in edges:
        predictor.edge(fraction, start_s + offset_s)
    predictor.finish([start_s + arrival_s for arrival_s in arrivals_s])


def test_last_is_the_newest_value():
    assert predict_component("last", [1.0, 5.0, 2.5]) == 2.5


@pytest.mark.parametrize(
    ("values", "mean"),
    [([3.0], 3.0), ([1.0, 2.0], 1.5), ([100.0, 1.0, 2.0, 3.0, 4.0, 5.0], 3.0)],
)
def test_average_has_a_window_of_five(values, mean):
    assert predict_component("average", values) == pytest.approx(mean)


def test_exponential_weighs_the_newest_by_three_tenths():
    assert predict_component("exponential", [1.0, 2.0, 4.0]) == pytest.approx(1.3 * 0.7 + 4 * 0.3)


def test_phase_is_the_mean_while_nothing_changes():
    noisy = [1.0 + 0.01 * (-1) ** i for i in range(20)]
    assert predict_component("phase", noisy) == pytest.approx(1.0, abs=0.002)


def test_phase_ignores_one_hiccup_and_follows_two():
    steady = [1.0 + 0.001 * (-1) ** i for i in range(20)]
    assert predict_component("phase", [*steady, 3.0]) == pytest.approx(1.0, abs=0.001)
    assert predict_component("phase", [*steady, 3.0, 1.0]) == pytest.approx(1.0, abs=0.001)
    assert predict_component("phase", [*steady, 3.0, 3.1]) == pytest.approx(3.05)


def test_phase_forgets_a_slow_first_iteration():
    assert predict_component("phase", [30.0, 1.0, 1.02]) == pytest.approx(1.01)


def test_a_history_is_as_good_after_very_many_values():
    """The count of values wraps; window and mean must not notice."""
    many = [float(i % 7) for i in range(5003)]
    assert predict_component("average", many) == pytest.approx(sum(many[-5:]) / 5)
    assert predict_component("last", many) == many[-1]


def test_additive_adds_the_usual_rest():
    predictor = Predictor()
    for _ in range(4):
        iterate(predictor, [1.0], [(0.5, 0.4)])
    predictor.start(10.0)
    predictor.edge(0.5, 10.9)
    assert predictor.components(0, 10.9)["additive"] == pytest.approx(10.9 + 0.6)


def test_proportional_stretches_the_rest_by_the_pace():
    predictor = Predictor()
    for _ in range(4):
        iterate(predictor, [1.0], [(0.5, 0.4)])
    predictor.start(10.0)
    predictor.edge(0.5, 10.8)  # twice as slow as usual
    assert predictor.components(0, 10.8)["proportional"] == pytest.approx(10.8 + 2 * 0.6)


def test_linear_needs_no_history():
    predictor = Predictor()
    predictor.start(10.0)
    predictor.edge(0.25, 10.1)
    assert predictor.components(0, 10.1) == {"linear": pytest.approx(10.4)}
    predicted = predictor.predict(0, 10.1)
    assert predicted.known
    assert predicted.arrival_s == pytest.approx(10.4)


def test_the_newest_edge_counts():
    predictor = Predictor()
    for _ in range(4):
        iterate(predictor, [1.0], [(0.25, 0.3), (0.75, 0.8)])
    predictor.start(0.0)
    predictor.edge(0.75, 1.8)
    predictor.edge(0.25, 0.3)  # overtaken on its way
    assert predictor.components(0, 1.8)["additive"] == pytest.approx(2.0)


def test_every_component_speaks_once_it_can():
    predictor = Predictor()
    for _ in range(3):
        iterate(predictor, [1.0], [(0.5, 0.4)])
    predictor.start(0.0)
    predictor.edge(0.5, 0.4)
    said = predictor.components(0, 0.4)
    assert set(said) == set(component_names())
    assert predictor.chosen in said
    assert all(math.isfinite(arrival_s) for arrival_s in said.values())


def test_unknown_names_are_refused():
    with pytest.raises(ScheduleError, match="median"):
        predict_component("median", [1.0])
    with pytest.raises(ScheduleError, match="none"):
        predict_component("last", [])
