"""Records: measures as defined, NaN where something is unknown, and the way to a file and back."""

import dataclasses
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce.records.files import save_iterations
from patallreduce.records.iterations import Iteration
from tests.records.made_up import iterations

NAN = math.nan


def text(iteration):
    """NaN equals nothing, not even itself, but is written alike."""
    return json.dumps(iteration.to_dict())


def test_measures_are_those_of_the_definitions(make_iteration):
    iteration = make_iteration(3, (2.0, 3.0, 7.0, 4.0), at_s=100.0, predicted_s=(2, 3, 6.5, 8))

    assert iteration.computation_s == (2.0, 3.0, 7.0, 4.0)
    assert iteration.median_arrival_s == 103.0  # of the two in the middle, the earlier
    assert iteration.lateness_s == (-1.0, 0.0, 4.0, 1.0)
    assert (iteration.last_rank, iteration.predicted_last_rank) == (2, 3)
    assert iteration.elapsed_s == (6.0, 5.0, 1.0, 4.0)
    assert iteration.average_elapsed_s == 4.0
    assert iteration.after_s == 1.0
    assert iteration.prediction_error_s == (0.0, 0.0, -0.5, 4.0)


def test_an_iteration_arrives_with_its_last_bucket(make_iteration):
    iteration = make_iteration(0, (5.0, 2.0))
    early = dataclasses.replace(iteration.buckets[0], index=1, arrival_s=(1.0, 3.0))
    both = dataclasses.replace(iteration, buckets=(*iteration.buckets, early))

    assert both.arrival_s == (5.0, 3.0)


def test_of_two_ranks_the_later_is_late_by_the_whole_distance(make_iteration):
    assert make_iteration(0, (2.0, 5.0)).lateness_s == (0.0, 3.0)


def test_what_needs_an_unknown_time_is_unknown(make_iteration):
    """The ranks known may not include the latest, so no measure is taken from them alone."""
    iteration = make_iteration(0, (2.0, NAN, 4.0))

    assert iteration.last_rank is None
    assert math.isnan(iteration.last_arrival_s)
    assert all(map(math.isnan, iteration.lateness_s))
    assert math.isnan(iteration.average_elapsed_s)
    assert math.isnan(iteration.after_s)
    assert iteration.computation_s[0] == 2.0  # this one does not need the others


def test_no_buckets_no_arrival():
    iteration = Iteration(0, 0, (1.0, 1.0), NAN, 0, (2.0, 2.0), ())

    assert all(map(math.isnan, iteration.arrival_s))
    assert iteration.last_rank is None


@settings(max_examples=50)
@given(st.lists(iterations(), max_size=4))
def test_a_file_gives_back_what_was_saved(tmp_path_factory, saved):
    path = tmp_path_factory.mktemp("records") / "iterations.jsonl"
    save_iterations(path, saved)

    assert "NaN" not in path.read_text().replace('"NaN"', "")
    assert list(map(text, pat.load_iterations(path))) == list(map(text, saved))


@settings(max_examples=50)
@given(iterations())
def test_a_dict_gives_back_what_it_was_made_from(iteration):
    assert text(Iteration.from_dict(iteration.to_dict())) == text(iteration)


@settings(max_examples=50)
@given(iterations(), st.floats(-1e3, 1e3))
def test_measures_do_not_depend_on_where_the_clock_begins(iteration, offset_s):
    def moved(times_s):
        return tuple(time_s + offset_s for time_s in times_s)

    buckets = tuple(
        dataclasses.replace(b, arrival_s=moved(b.arrival_s), finish_s=moved(b.finish_s))
        for b in iteration.buckets
    )
    later = dataclasses.replace(
        iteration,
        start_s=moved(iteration.start_s),
        finish_s=moved(iteration.finish_s),
        buckets=buckets,
    )

    for name in ("lateness_s", "elapsed_s", "computation_s"):
        expected = pytest.approx(getattr(iteration, name), nan_ok=True, abs=1e-8)
        assert getattr(later, name) == expected
    assert later.after_s == pytest.approx(iteration.after_s, nan_ok=True, abs=1e-8)


def test_infinite_times_are_unknown(make_iteration):
    record = make_iteration().to_dict() | {"decided_s": math.inf}

    assert math.isnan(Iteration.from_dict(record).decided_s)


def test_lists_of_different_lengths_are_refused(make_iteration):
    record = make_iteration(7).to_dict()
    record["buckets"][0]["arrival_s"] = [1.0, 2.0, 3.0]

    with pytest.raises(ValueError, match="iteration 7: bucket 0: arrival_s: expected 2 .* got 3"):
        Iteration.from_dict(record)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: expected JSON: Expecting property name"),
        ("[1, 2]", "line 2: not a record of an iteration"),
        ("3", "line 2: not a record of an iteration"),
        ('{"model": 0}', "line 2: not a record of an iteration: 'buckets' is missing"),
        ('{"rank": 0, "loss": 1.5}', "'buckets' is missing"),
    ],
)
def test_a_bad_line_is_named(tmp_path, make_iteration, line, said):
    path = tmp_path / "records.jsonl"
    save_iterations(path, [make_iteration()])
    path.write_text(path.read_text() + line + "\n")

    with pytest.raises(ValueError, match=said) as error:
        pat.load_iterations(path)
    assert str(path) in str(error.value)


def test_a_binary_file_is_refused(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\xff\xfe")

    with pytest.raises(ValueError, match="picture.png: expected text in UTF-8"):
        pat.load_iterations(path)
