"""The straggler report, on lateness made up so that the answer is known."""

import builtins
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce.records.stragglers import late_since
from tests.records.made_up import make_iteration

ON_TIME_S = [1.0, 1.0, 1.0]


def late(rank, by_s):
    return [time_s + by_s * (r == rank) for r, time_s in enumerate(ON_TIME_S)]


@pytest.fixture
def run_of(make_iteration):
    """Iterations 100, 101, ... with these arrivals after the start; predicted as the one before."""

    def run(arrivals_s, **how):
        return [
            make_iteration(
                100 + n,
                arrival_s,
                at_s=10.0 * n,
                predicted_s=arrivals_s[n - 1] if n else None,
                **how,
            )
            for n, arrival_s in enumerate(arrivals_s)
        ]

    return run


def test_a_rank_that_becomes_late_is_found_with_when_and_how_much(run_of):
    report = pat.straggler_report(run_of([ON_TIME_S] * 6 + [late(2, 0.5)] * 4))
    found = report.ranks[2]

    assert report.identify_stragglers() == [2]
    assert found.late_since == 106
    assert found.late_s == pytest.approx(0.5)
    assert found.median_s == 0.0  # over all iterations it hides
    assert found.mean_s == pytest.approx(0.2)
    assert found.max_s == pytest.approx(0.5)
    assert found.last_share == pytest.approx(0.4)
    assert found.predicted_share == pytest.approx(3 / 4)
    assert found.prediction_error_s == pytest.approx(0.5 / 9)  # once wrong, of nine predicted
    assert found.cost_s == pytest.approx(0.5 + 1.0)  # the wait and the communication
    assert [report.ranks[r].late_since for r in (0, 1)] == [None, None]


def test_who_was_late_most_of_the_time_is_named_even_if_it_has_recovered(run_of):
    report = pat.straggler_report(run_of([late(1, 0.5)] * 12 + [ON_TIME_S] * 8))

    assert report.ranks[1].late_since is None
    assert report.identify_stragglers() == [1]
    assert "rank 1 was late by 500.0 ms, but is not any more" in str(report)


def test_the_latest_comes_first(run_of):
    arrivals_s = [1.0, 1.2, 1.0, 1.4, 1.0]
    report = pat.straggler_report(run_of([arrivals_s] * 5))

    assert report.identify_stragglers() == [3, 1]
    assert report.identify_stragglers(0.3) == [3]
    assert report.identify_stragglers(ratio=0.3) == [3]
    assert report.identify_stragglers(ratio=0.5) == []


def test_balanced_ranks_have_no_straggler(run_of):
    report = pat.straggler_report(run_of([[1.0, 1.01, 0.99], [1.01, 0.99, 1.0]] * 20))

    assert report.identify_stragglers() == []
    assert "no rank is late again and again" in str(report)


def test_iterations_that_are_not_fully_known_do_not_count(run_of):
    known = run_of([late(1, 0.5)] * 5)
    partly = run_of([[math.nan, 9.0, 1.0]] * 3)

    report, alone = pat.straggler_report([*known, *partly]), pat.straggler_report(known)

    assert (report.iterations, report.unknown) == (5, 3)
    assert str(report.ranks) == str(alone.ranks)


def test_no_iterations_give_an_empty_report():
    report = pat.straggler_report([])

    assert (report.ranks, report.iterations) == ((), 0)
    assert report.identify_stragglers() == []
    assert "0 iterations" in str(report)


def test_nothing_known_gives_a_report_that_says_so(run_of):
    report = pat.straggler_report(run_of([[math.nan, 1.0]] * 4))

    assert report.identify_stragglers() == []
    assert "0 iterations (4 more not fully known) of 2 ranks" in str(report)


def test_different_jobs_are_not_mixed(run_of):
    with pytest.raises(ValueError, match="got models .0. on 2 and 3 ranks"):
        pat.straggler_report([*run_of([ON_TIME_S]), *run_of([[1.0, 1.0]])])
    with pytest.raises(ValueError, match="got models .0, 1."):
        pat.straggler_report([*run_of([ON_TIME_S]), *run_of([ON_TIME_S], model=1)])


@pytest.mark.parametrize(
    "thresholds", [{"threshold_s": -1.0}, {"ratio": math.nan}, {"threshold_s": 1.0, "ratio": 0.1}]
)
def test_bad_thresholds_are_refused(run_of, thresholds):
    iterations = run_of([ON_TIME_S] * 3)

    with pytest.raises(ValueError, match="threshold_s|ratio"):
        pat.straggler_report(iterations, **thresholds)
    with pytest.raises(ValueError, match="threshold_s|ratio"):
        pat.straggler_report(iterations).identify_stragglers(**thresholds)


def test_the_table_has_a_line_per_rank_with_and_without_rich(run_of, monkeypatch):
    report = pat.straggler_report(run_of([late(2, 0.5)] * 6))
    pytest.importorskip("rich")
    with_rich = str(report)
    real_import = builtins.__import__

    def without_rich(name, *args, **kwargs):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    plain = str(report)

    assert plain != with_rich
    for text in (plain, with_rich):
        assert "rank 2 is late by 500.0 ms since iteration 100" in text
        rows = [line.split() for line in text.splitlines() if line.split()[:1] in (["0"], ["2"])]
        assert [row[0] for row in rows] == ["0", "2"]
        assert rows[1][1:6] == ["500.0", "500.0", "500.0", "100", "100"]
        assert rows[1][6] == "100"  # foreseen, wherever there was a prediction
        assert max(map(len, text.splitlines())) <= 110


@settings(max_examples=50)
@given(st.lists(st.booleans(), max_size=40))
def test_a_phase_begins_late_and_is_late_in_two_of_three(late_or_not):
    since = late_since(late_or_not)

    if since is None:
        assert late_or_not[-3:] != [True] * 3
    else:
        phase = late_or_not[since:]
        assert phase[0]
        assert sum(phase) >= max(3, 2 * len(phase) / 3)


@pytest.mark.parametrize(
    ("pattern", "since"),
    [("...xxx", 3), ("xxx...", None), ("....xx", None), ("xxxxxx.xxx", 0), ("xxx...xxxx", 6)],
)
def test_phases(pattern, since):
    assert late_since([mark == "x" for mark in pattern]) == since


@settings(max_examples=50)
@given(st.data())
def test_the_numbering_of_ranks_does_not_matter(data):
    ranks = data.draw(st.integers(1, 5))
    times = st.lists(st.integers(1, 30), min_size=ranks, max_size=ranks, unique=True)
    arrivals_s = data.draw(st.lists(times, min_size=1, max_size=8))
    order = data.draw(st.permutations(range(ranks)))

    def report(columns):
        return pat.straggler_report(
            [
                make_iteration(n, [row[c] for c in columns], at_s=50.0 * n)
                for n, row in enumerate(arrivals_s)
            ]
        )

    straight, permuted = report(range(ranks)), report(order)

    for position, rank in enumerate(order):
        expected, got = vars(straight.ranks[rank]).copy(), vars(permuted.ranks[position]).copy()
        assert expected.pop("rank") == rank
        assert got.pop("rank") == position
        assert str(got) == str(expected)  # as text, since NaN equals nothing
    assert sum(r.last_share for r in straight.ranks) == pytest.approx(1.0)
