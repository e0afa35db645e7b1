"""The real engine in simulated time: random interleavings, with faults; `make interleavings`."""

import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "build" / "simulated" / "interleavings"
SEEDS = 20_000
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
