"""The real engine in simulated time: random interleavings, with faults; `make interleavings`."""

import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "build" / "simulated" / "interleavings"
SEEDS = 20_000
FOUND = [503512]  # that failed once, beyond those
LIMIT_S = 120


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.skipif(not PROGRAM.exists(), reason="`make test` builds it")
def test_what_is_promised_holds_in_all_interleavings():
    run = subprocess.run(
        [PROGRAM, "1", str(SEEDS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]


@pytest.mark.parametrize("seed", FOUND)
@pytest.mark.skipif(not PROGRAM.exists(), reason="`make test` builds it")
def test_what_failed_once_holds(seed):
    run = subprocess.run([PROGRAM, str(seed)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
