"""From records to the picture and the figures, on times made up so that the answer is known."""

import dataclasses

import pytest
from records import FIRST_STEADY_ITERATION, Record, Recorder, measure, read_run
from timeline import Interval, draw, intervals, typical_stretch

LENGTH_S = 10.0


def iteration(number: int, at_s: float) -> list[Record]:
    """Two ranks: rank 1 is 3 s later, rank 0 has the sum 2 s after that, rank 1 after 0.5 s."""
    return [
        Record(number, at_s, at_s + 2.0, at_s + 7.0, at_s + 7.5, loss=1.0),
        Record(number, at_s, at_s + 5.0, at_s + 5.5, at_s + 6.0, loss=1.0),
    ]


def run_of(iterations: int) -> list[list[Record]]:
    return [iteration(number, number * LENGTH_S) for number in range(iterations)]


def test_waiting_ends_and_communication_begins_with_the_last_arrival():
    early, late = intervals(iteration(0, at_s=100.0))

    assert early == [
        Interval("computation", 100.0, 102.0),
        Interval("waiting", 102.0, 105.0),
        Interval("communication", 105.0, 107.0),
        Interval("computation", 107.0, 107.5),
    ]
    assert late == [
        Interval("computation", 100.0, 105.0),
        Interval("communication", 105.0, 105.5),
        Interval("computation", 105.5, 106.0),
    ]


def test_a_rank_that_finishes_before_the_last_arrival_only_waited():
    """No all-reduce can do that, but a clock reading may be late by a scheduler's whim."""
    early, late = iteration(0, at_s=0.0)
    early = dataclasses.replace(early, finish_s=4.0, end_s=4.5)

    assert [i.activity for i in intervals([early, late])[0]] == [
        "computation",
        "waiting",
        "computation",
    ]


def test_measures_are_those_of_the_definitions():
    measures = measure([run_of(FIRST_STEADY_ITERATION + 3)], late_rank=1)

    assert measures.iteration_s == pytest.approx(LENGTH_S)
    assert measures.average_elapsed_s == pytest.approx((5.0 + 0.5) / 2)
    assert measures.after_s == pytest.approx(7.0 - 5.0)
    assert measures.late_elapsed_s == pytest.approx(0.5)
    assert measures.late_computation_s == pytest.approx(5.0 + 0.5)


def test_the_time_between_two_runs_is_no_iteration():
    """Runs are pooled, but a pause of hours between them must not show."""
    length = FIRST_STEADY_ITERATION + 2
    later = [iteration(number, 1e4 + number * LENGTH_S) for number in range(length)]

    assert measure([run_of(length), later], late_rank=1).iteration_s == pytest.approx(LENGTH_S)


def test_the_first_iterations_do_not_count():
    run = run_of(FIRST_STEADY_ITERATION + 3)
    slow = [dataclasses.replace(r, finish_s=r.finish_s + 500.0) for r in run[0]]

    assert measure([[slow, *run[1:]]], late_rank=1) == measure([run], late_rank=1)


def test_too_few_iterations_are_refused():
    run = run_of(FIRST_STEADY_ITERATION + 1)

    with pytest.raises(ValueError, match="at least"):
        measure([run], late_rank=1)
    with pytest.raises(ValueError, match="2 iterations to draw, but the run has 1 steady"):
        typical_stretch(run, 2)


def test_an_outlier_is_not_what_is_drawn():
    run = run_of(FIRST_STEADY_ITERATION + 5)
    first = FIRST_STEADY_ITERATION
    run[first] = [dataclasses.replace(r, end_s=r.end_s + 100.0) for r in run[first]]

    assert typical_stretch(run, 1) != [run[first]]


def test_a_resumed_run_replaces_the_iterations_it_repeats(tmp_path):
    before, again = run_of(3), run_of(4)
    for resumed, run in [(False, before), (True, again[2:])]:
        for rank in range(2):
            with Recorder(tmp_path, rank, resumed=resumed) as recorder:
                for ranks in run:
                    recorder.add(ranks[rank])

    assert read_run(tmp_path) == again


def test_the_picture_is_drawn(tmp_path):
    path = tmp_path / "new folder" / "timeline.svg"
    run = run_of(FIRST_STEADY_ITERATION + 4)

    draw({"one": run, "two": run}, path, title="Two ranks", iterations=2, late_rank=1)

    assert path.read_text().count("<svg") == 1
