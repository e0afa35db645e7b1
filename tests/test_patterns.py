"""Patterns of arrivals: what each promises, on every rank alike, and bad input."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patallreduce import patterns
from patallreduce.pricing.pattern_text import Pattern, parse_pattern

MANY = 20_000
DRAWN = {
    "uniform": lambda ranks, seed: patterns.uniform(ranks, 0.2, seed=seed),
    "normal": lambda ranks, seed: patterns.normal(ranks, 0.2, seed=seed),
    "gamma": lambda ranks, seed: patterns.gamma(ranks, 0.2, 0.5, seed=seed),
    "bernoulli": lambda ranks, seed: patterns.bernoulli(ranks, 0.2, 0.5, seed=seed),
}


def test_fixed_patterns():
    assert patterns.balanced(3) == [0, 0, 0]
    assert patterns.one_late(3, 0.5) == [0, 0, 0.5]
    assert patterns.one_late(3, 0.5, 0) == [0.5, 0, 0]
    assert patterns.alternating(5, 0.5) == [0.5, 0, 0.5, 0, 0.5]
    assert patterns.alternating(4, 0.5, 0.1) == [0.5, 0.1, 0.5, 0.1]


@pytest.mark.parametrize("name", DRAWN)
def test_the_seed_decides(name):
    draw = DRAWN[name]
    assert draw(16, 1) == draw(16, 1)
    assert draw(16, 1) != draw(16, 2)
    assert draw(16, "1 0") != draw(16, "1 1")


@pytest.mark.parametrize("name", DRAWN)
@given(ranks=st.integers(1, 40), seed=st.integers())
def test_nobody_is_early(name, ranks, seed):
    arrivals_s = DRAWN[name](ranks, seed)
    assert len(arrivals_s) == ranks
    assert min(arrivals_s) >= 0


def test_draws_are_independent_of_the_draw_before():
    """Not only do neighbouring seeds differ: rank 0's draws over the seeds are spread evenly."""
    first_s = [patterns.uniform(1, 1.0, seed=seed)[0] for seed in range(2000)]
    assert statistics.fmean(first_s) == pytest.approx(0.5, abs=0.03)
    shifted = statistics.correlation(first_s[1:], first_s[:-1])
    assert abs(shifted) < 0.08


def test_uniform_is_uniform():
    arrivals_s = patterns.uniform(MANY, 0.2)
    assert max(arrivals_s) <= 0.2
    assert statistics.fmean(arrivals_s) == pytest.approx(0.1, rel=0.02)
    assert statistics.stdev(arrivals_s) == pytest.approx(0.2 / 12**0.5, rel=0.02)


def test_normal_is_normal_and_counts_from_the_first():
    arrivals_s = patterns.normal(MANY, 0.2)
    assert min(arrivals_s) == 0
    assert statistics.stdev(arrivals_s) == pytest.approx(0.2, rel=0.02)
    mean_s = statistics.fmean(arrivals_s)
    within = sum(abs(a - mean_s) < 0.2 for a in arrivals_s) / MANY
    assert within == pytest.approx(0.683, abs=0.015)


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_gamma_has_its_mean_and_shape(shape):
    arrivals_s = patterns.gamma(MANY, 0.2, shape)
    assert statistics.fmean(arrivals_s) == pytest.approx(0.2, rel=0.05)
    assert statistics.stdev(arrivals_s) == pytest.approx(0.2 / shape**0.5, rel=0.05)


def test_bernoulli_has_two_values():
    arrivals_s = patterns.bernoulli(MANY, 0.2, 0.3)
    assert set(arrivals_s) == {0.0, 0.2}
    assert arrivals_s.count(0.2) / MANY == pytest.approx(0.3, abs=0.015)
    assert set(patterns.bernoulli(50, 0.2, 1)) == {0.2}
    assert set(patterns.bernoulli(50, 0.2, 0)) == {0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: patterns.balanced(0), "ranks: expected a number >= 1, got 0"),
        (lambda: patterns.one_late(4, -1), "delay_s: expected seconds >= 0, got -1"),
        (lambda: patterns.one_late(4, 1, 4), "rank: expected 0 to 3, got 4"),
        (lambda: patterns.alternating(4, 1, float("nan")), "odd_s: expected .* got nan"),
        (lambda: patterns.uniform(4, float("inf")), "delay_s: expected .* got inf"),
        (lambda: patterns.normal(4, -0.1), "deviation_s"),
        (lambda: patterns.gamma(4, 1, 0), "shape: expected a number > 0, got 0"),
        (lambda: patterns.bernoulli(4, 1, 1.5), "probability: expected 0 to 1, got 1.5"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.fixture(name="trace")
def trace_fixture(tmp_path):
    def write(text):
        path = tmp_path / "trace.txt"
        path.write_text(text)
        return path

    return write


def test_a_trace_is_read(trace):
    path = trace("# seen on a cluster\n0 0.1 0.2\n\n1e-3,\t0, 2 # late\n")
    assert patterns.read_trace(path) == [[0, 0.1, 0.2], [0.001, 0, 2]]
    assert patterns.read_trace(path, 3) == patterns.read_trace(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n0 x\n", r"trace.txt, line 2, column 2: expected seconds >= 0, got 'x'"),
        ("0 1\n\n0 -1\n", r"line 3, column 2: expected seconds >= 0, got '-1'"),
        ("0 nan\n", r"line 1, column 2: expected seconds >= 0, got 'nan'"),
        ("0 1\n0 1 2\n", r"line 2: expected 2 values, one per rank, got 3"),
        ("# nothing\n", r"trace.txt: expected a line of arrivals"),
    ],
)
def test_bad_traces_are_named(trace, text, message):
    with pytest.raises(ValueError, match=message):
        patterns.read_trace(trace(text))


def test_a_trace_of_other_ranks_is_refused(trace):
    with pytest.raises(ValueError, match="line 1: expected 4 values, one per rank, got 2"):
        patterns.read_trace(trace("0 1\n"), 4)


def test_patterns_as_text(trace):
    assert parse_pattern("one_late:0.3:1").arrivals_s(3) == [0, 0.3, 0]
    assert parse_pattern("one-late:0.3").arrivals_s(3) == [0, 0, 0.3]
    assert parse_pattern("alternating:0.3").arrivals_s(3) == [0.3, 0, 0.3]
    assert parse_pattern("balanced").arrivals_s(2) == [0, 0]
    path = trace("0 1\n2 0\n")
    of_trace = parse_pattern(f"trace:{path}")
    assert of_trace.draws(2, 3) == [[0, 1], [2, 0], [0, 1]]
    assert str(of_trace) == f"trace:{path}"
    assert str(parse_pattern("uniform:0.1")) == "uniform:0.1"


def test_draws_differ_only_where_something_is_drawn():
    drawn = parse_pattern("gamma:0.1:3").draws(4, 5, seed=7)
    assert len({tuple(arrivals_s) for arrivals_s in drawn}) == 5
    assert drawn == Pattern("gamma", (0.1, 3)).draws(4, 5, seed=7)
    assert parse_pattern("one_late:1").draws(4, 5) == [[0, 0, 0, 1]]


def test_a_delay_can_be_replaced():
    assert parse_pattern("bernoulli:0:0.5").with_delay(2).parameters == (2, 0.5)
    assert parse_pattern("uniform").with_delay(2).parameters == (2,)
    with pytest.raises(ValueError, match="balanced: has no delay"):
        parse_pattern("balanced").with_delay(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poisson:1", "expected one of balanced, one_late, .*trace"),
        ("uniform:x", "expected numbers after uniform"),
        ("uniform:1:2", "at most 1 numbers after uniform"),
        ("balanced:1", "at most 0 numbers"),
        ("one_late:1:0.5", "expected a rank, got 0.5"),
        ("trace:", "expected trace:FILE"),
    ],
)
def test_bad_text_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse_pattern(text)
