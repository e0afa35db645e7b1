"""A short soak; a long one: `python -m tests.soak`."""

import pytest

from tests import programs

LIMIT_S = 150


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 20)
def test_random_collectives_and_training_stay_right():
    arguments = ("--seconds", "3", "--ranks", "3", "--seed", "3")
    ran = programs.run_module("tests.soak", *arguments, limit_s=LIMIT_S)
    assert ran.returncode == 0, ran.stdout
