import argparse

import pytest

from benchmarks.lab.arguments import parse_bytes, parse_late
from benchmarks.lab.measures import Sample, bandwidths_bytes_s, medians

LATE = Sample(arrivals_s=[10.0, 11.0, 10.2], finishes_s=[12.0, 11.1, 12.4])


def test_figures_of_one_sample():
    assert LATE.elapsed_s(2) == pytest.approx(2.2)
    assert LATE.average_elapsed_s == pytest.approx((2.0 + 0.1 + 2.2) / 3)
    assert LATE.after_s == pytest.approx(1.4)
    assert LATE.last_elapsed_s == pytest.approx(0.1)


def test_back_to_back_calls_are_figured_per_call():
    many = Sample(LATE.arrivals_s, LATE.finishes_s, calls=10)
    assert many.after_s == pytest.approx(LATE.after_s / 10)
    assert many.average_elapsed_s == pytest.approx(LATE.average_elapsed_s / 10)


def test_medians_ignore_one_outlier():
    outlier = Sample([0.0, 0.0], [100.0, 100.0])
    usual = [Sample([0.0, 0.0], [1.0, 3.0]), Sample([0.0, 0.0], [2.0, 4.0])]
    figures = medians([usual[0], outlier, usual[1]])
    assert figures["average_elapsed_s"] == 3.0
    assert figures["average_elapsed_min_s"] == 2.0
    assert figures["after_s"] == 4.0


def test_bandwidths():
    assert bandwidths_bytes_s(800, 8, 2.0) == (400.0, 700.0)


def test_sizes_and_patterns_are_read():
    assert [parse_bytes(text) for text in ("64", "1KiB", "4MiB")] == [64, 1024, 4 << 20]
    assert parse_late("none") == {}
    assert parse_late("1=0.3,5=1") == {"1": 0.3, "5": 1.0}


@pytest.mark.parametrize("text", ["0", "3", "4MB", "1.5KiB", ""])
def test_bad_size_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["1", "1=x", "1=-2", "=", "1=2=3"])
def test_bad_pattern_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_late(text)
