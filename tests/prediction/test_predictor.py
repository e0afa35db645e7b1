"""What the combined prediction promises: it follows changes, hears silence, survives nonsense."""

import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from patallreduce import ScheduleError
from patallreduce._core import Job, Predictor


def iterate(predictor, arrivals_s, edges=(), start_s=0.0):
    """One whole iteration; times count from `start_s`."""
    predictor.start(start_s)
    for fraction, offset_s in edges:
        predictor.edge(fraction, start_s + offset_s)
    predictor.finish([start_s + arrival_s for arrival_s in arrivals_s])


def test_nothing_is_known_before_anything_was_seen():
    predicted = Predictor().predict(0, 3.0)
    assert not predicted.known
    assert predicted.arrival_s == 3.0


def test_buckets_are_told_apart():
    predictor = Predictor()
    for k in range(5):
        iterate(predictor, [1.0, 2.0, 3.5], start_s=10.0 * k)
    predictor.start(50.0)
    arrivals_s = [predictor.predict(bucket, 50.0).arrival_s for bucket in range(3)]
    assert arrivals_s == pytest.approx([51.0, 52.0, 53.5])


def test_other_buckets_begin_a_new_history():
    predictor = Predictor()
    for _ in range(5):
        iterate(predictor, [1.0, 2.0])
    iterate(predictor, [0.5, 0.6, 0.7])
    predictor.start(0.0)
    assert predictor.predict(0, 0.0).arrival_s == pytest.approx(0.5)
    assert predictor.components(0, 0.0)["average"] == pytest.approx(0.5)


def test_an_arrived_bucket_is_known_exactly():
    predictor = Predictor()
    iterate(predictor, [1.0, 2.0])
    predictor.start(0.0)
    predictor.arrive(0, 1.25)
    predicted = predictor.predict(0, 1.5)
    assert (predicted.arrival_s, predicted.error_s) == (1.25, 0.0)
    assert predictor.predict(1, 5.0).arrival_s >= 5.0


@pytest.mark.parametrize("with_edges", [False, True])
def test_a_change_is_relearned_within_three_iterations(with_edges):
    """The late rank moves: one rank's 0 s become 0.5 s, another's 0.5 s become 0."""
    noise = random.Random(1)
    job = Job(2)
    ranks = [Predictor(job), Predictor(job)]

    def turn(k, late):
        for rank, predictor in enumerate(ranks):
            lateness_s = 0.5 * (rank == late) + noise.uniform(-0.005, 0.005)
            edges = [(0.5, 0.25 + lateness_s / 2)] if with_edges else []
            iterate(predictor, [0.5 + lateness_s], edges, start_s=2.0 * k)

    for k in range(20):
        turn(k, late=0)
    for k in range(20, 23):
        turn(k, late=1)
    for predictor in ranks:
        predictor.start(46.0)
    arrivals_s = [predictor.predict(0, 46.0).arrival_s for predictor in ranks]
    assert arrivals_s == pytest.approx([46.5, 47.0], abs=0.05)


def test_lateness_that_wanders_but_shows_in_the_progress_is_seen():
    """A different rank is late each time: only its edge tells."""
    noise = random.Random(2)
    ranks = 8
    job = Job(ranks)
    predictors = [Predictor(job) for _ in range(ranks)]
    named = 0
    for k in range(40):
        late = noise.randrange(ranks)
        lateness_s = [0.3 * (rank == late) + noise.uniform(0, 0.02) for rank in range(ranks)]
        for predictor, late_s in zip(predictors, lateness_s, strict=True):
            predictor.start(float(k))
            predictor.edge(0.5, k + 0.25 + 0.5 * late_s)
        predicted_s = [p.predict(0, k + 0.25).arrival_s for p in predictors]
        named += k >= 3 and predicted_s.index(max(predicted_s)) == late
        for predictor, late_s in zip(predictors, lateness_s, strict=True):
            predictor.finish([k + 0.5 + late_s])
    assert named >= 36


def test_the_error_is_about_the_noise():
    noise = random.Random(3)
    predictor = Predictor()
    for k in range(200):
        iterate(predictor, [1.0 + noise.gauss(0, 0.02)], start_s=2.0 * k)
    predictor.start(400.0)
    assert 0.01 < predictor.predict(0, 400.0).error_s < 0.05


def test_an_overdue_edge_moves_the_arrival():
    predictor = Predictor()
    for k in range(10):
        iterate(predictor, [1.0], [(0.5, 0.6)], start_s=2.0 * k)
    predictor.start(20.0)
    assert predictor.predict(0, 20.1).arrival_s == pytest.approx(21.0)
    # Half of the work still lies ahead at 23, as no edge has come.
    assert predictor.predict(0, 23.0).arrival_s == pytest.approx(23.4)
    predictor.edge(0.5, 22.9)
    assert predictor.predict(0, 23.0).arrival_s < 23.4


def test_an_edge_that_seldom_comes_is_not_waited_for():
    predictor = Predictor()
    for k in range(20):
        iterate(predictor, [1.0], [(0.5, 0.6)] if k < 2 else [], start_s=2.0 * k)
    predictor.start(40.0)
    assert predictor.predict(0, 41.5).arrival_s == pytest.approx(41.5)


def test_never_before_now():
    predictor = Predictor()
    iterate(predictor, [1.0])
    predictor.start(10.0)
    assert predictor.predict(0, 17.0).arrival_s >= 17.0


def test_a_lost_start_is_filled_in():
    predictor = Predictor()
    for k in range(6):
        iterate(predictor, [1.0], [(0.5, 0.6)], start_s=1.5 * k)
    # The iterations follow each other by 1.5 s; this one's start did not get through.
    assert predictor.predict(0, 9.0).arrival_s == pytest.approx(10.0)
    predictor.edge(0.5, 9.7)
    assert predictor.predict(0, 9.7).arrival_s == pytest.approx(10.1)
    predictor.finish([10.1])
    iterate(predictor, [1.0], [(0.5, 0.6)], start_s=10.5)
    predictor.start(12.0)
    assert predictor.components(0, 12.0)["average"] == pytest.approx(13.0)


def test_nonsense_once_does_not_last():
    predictor = Predictor()
    for k in range(10):
        iterate(predictor, [1.0], [(0.5, 0.5)], start_s=2.0 * k)
    iterate(predictor, [math.nan], [(0.5, math.inf), (math.nan, 0.5), (-1.0, 0.5)], start_s=20.0)
    iterate(predictor, [-500.0], [(0.5, -5.0)], start_s=22.0)
    iterate(predictor, [1.0], [(0.5, 0.5), (0.5, 700.0), (0.5, 0.1)], start_s=24.0)
    predictor.start(26.0)
    assert predictor.predict(0, 26.0).arrival_s == pytest.approx(27.0)
    predictor.edge(0.5, 26.5)
    assert predictor.predict(0, 26.5).arrival_s == pytest.approx(27.0)


def test_a_clock_jump_is_survived():
    """All times shift by days, between two iterations and within one."""
    predictor = Predictor()
    for k in range(10):
        iterate(predictor, [1.0], [(0.5, 0.5)], start_s=2.0 * k)
    predictor.start(20.0)
    predictor.finish([5e6 + 21.0])
    for k in range(3):
        iterate(predictor, [1.0], [(0.5, 0.5)], start_s=5e6 + 2.0 * k)
    predictor.start(5e6 + 10)
    assert predictor.predict(0, 5e6 + 10).arrival_s == pytest.approx(5e6 + 11, abs=0.01)


times = st.one_of(
    st.floats(-10, 100),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e300, -1e300, 1e12, -1e12, 1e6, 5e-324]),
)
calls = st.one_of(
    st.tuples(st.just("start"), times),
    st.tuples(st.just("edge"), times | st.floats(0, 1), times),
    st.tuples(st.just("arrive"), st.integers(0, 4), times),
    st.tuples(st.just("finish"), st.lists(times, max_size=3)),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 2), calls), max_size=40), times)
def test_whatever_comes_in_finite_numbers_come_out(history, now_s):
    job = Job(3)
    ranks = [Predictor(job) for _ in range(3)]
    for rank, (call, *arguments) in history:
        getattr(ranks[rank], call)(*arguments)
        for bucket in (0, 2, 7):
            predicted = ranks[rank].predict(bucket, now_s)
            assert math.isfinite(predicted.arrival_s)
            assert math.isfinite(predicted.error_s)
            assert predicted.error_s >= 0
            assert all(map(math.isfinite, ranks[rank].components(bucket, now_s).values()))


@settings(max_examples=100)
@given(st.lists(calls, max_size=20))
@example([("start", 0.0), ("finish", [1.0, 0.0])])
@example([("start", 0.0), ("finish", [0.0, 0.0]), ("start", 0.0), ("finish", [0.0, 2.0])])
@example([("start", 0.0), ("finish", [2.0, 0.0]), ("start", 0.0), ("finish", [0.0, 0.0])])
def test_whatever_came_sound_iterations_repair(history):
    """Nonsense that could pass as sense may mislead, but not for long."""
    predictor = Predictor()
    for call, *arguments in history:
        getattr(predictor, call)(*arguments)
    for k in range(30):  # 0.7 to the 30th of what was wrong is left
        iterate(predictor, [1.0, 1.2], start_s=200.0 + 2 * k)
    predictor.start(270.0)
    assert predictor.predict(1, 270.0).arrival_s == pytest.approx(271.2, abs=0.05)


def test_which_bucket_is_how_long_before_the_last_is_learned_by_itself():
    """Two wrong iterations of one bucket leave nothing where all arrivals came otherwise since."""
    predictor = Predictor()
    for arrivals_s in ([2.0, 0.0], [0.0, 0.0]):
        iterate(predictor, arrivals_s, start_s=0.0)
    for k in range(10):
        iterate(predictor, [1.0, 1.2], start_s=200.0 + 2 * k)
    predictor.start(240.0)
    arrivals_s = [predictor.predict(bucket, 240.0).arrival_s for bucket in range(2)]
    assert arrivals_s == pytest.approx([241.0, 241.2], abs=0.01)


def test_a_job_needs_a_rank():
    with pytest.raises(ScheduleError, match="ranks >= 1"):
        Job(0)


def test_a_start_is_expected_after_the_last_result():
    """A rank's place in a chain changes, and with it when it goes on."""
    predictor = Predictor()
    start_s = 0.0
    for k in range(8):
        iterate(predictor, [1.0], start_s=start_s)
        start_s += 1.0 + 0.1 * (k % 4) + 0.02
        predictor.result(start_s - 0.02)
        predicted = predictor.predict(0, start_s - 0.5)
        if k > 1:
            assert predicted.arrival_s == pytest.approx(start_s + 1.0)


def test_results_that_are_expected_wrongly_are_not_relied_on():
    predictor, drawn = Predictor(), random.Random(1)
    for k in range(12):
        start_s = 1.5 * k
        iterate(predictor, [1.0], start_s=start_s)
        predictor.result(start_s + drawn.uniform(1.0, 3.0))
    assert predictor.predict(0, start_s + 1.1).arrival_s == pytest.approx(start_s + 2.5, abs=0.05)


@pytest.mark.parametrize("at_s", [math.nan, math.inf, 1e300, -1e9])
def test_a_result_that_cannot_be_is_ignored(at_s):
    predictor = Predictor()
    for k in range(4):
        iterate(predictor, [1.0], start_s=1.5 * k)
        predictor.result(at_s)
    assert math.isfinite(predictor.predict(0, 6.0).arrival_s)


def test_silence_is_told():
    predictor = Predictor()
    for k in range(4):
        iterate(predictor, [1.0], edges=[(0.5, 0.5)], start_s=10.0 * k)
    predictor.start(40.0)
    assert predictor.predict(0, 40.4).silence_s == pytest.approx(0.0, abs=1e-6)
    assert predictor.predict(0, 40.8).silence_s == pytest.approx(0.3, abs=0.05)
