"""A short soak; a long one: `python -m tests.soak`."""

import subprocess
import sys

import pytest

LIMIT_S = 150


def run_soak(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tests.soak", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.alone
@pytest.mark.timeout(LIMIT_S + 20)
def test_random_collectives_and_training_stay_right():
    ran = run_soak("--seconds", "10", "--ranks", "4", "--seed", "3")
    assert ran.returncode == 0, ran.stdout
