"""A sample of all cells; all of them: `make test-all`, or `python -m tests.matrix`."""

import pytest

from tests import programs

LIMIT_S = 90
ALL_S = 3600


def run_matrix(limit_s, *arguments):
    ran = programs.run_module("tests.matrix", *arguments, limit_s=limit_s)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.alone
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_sample_of_the_matrix_ends_as_promised():
    run_matrix(LIMIT_S, "--sample", "12", "--seed", "5")


@pytest.mark.slow
@pytest.mark.timeout(ALL_S + 20)
def test_the_whole_matrix_ends_as_promised():
    run_matrix(ALL_S)
