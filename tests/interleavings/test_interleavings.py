"""The real engine in simulated time: random interleavings, with faults; `make interleavings`."""

from pathlib import Path

import pytest

from tests import programs

PROGRAM = Path(__file__).parents[2] / "build" / "simulated" / "interleavings"
SEEDS = 6_000
FOUND = [15038, 33095, 503512, 5059054, 5183182, 70896578]  # that failed once, beyond those
LIMIT_S = 120


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.skipif(not PROGRAM.exists(), reason="`make test` builds it")
def test_what_is_promised_holds_in_all_interleavings():
    ran = programs.run(PROGRAM, "1", str(SEEDS), limit_s=LIMIT_S)
    assert ran.returncode == 0, ran.stdout[-4000:]


@pytest.mark.parametrize("seed", FOUND)
@pytest.mark.skipif(not PROGRAM.exists(), reason="`make test` builds it")
def test_what_failed_once_holds(seed):
    ran = programs.run(PROGRAM, str(seed), limit_s=LIMIT_S)
    assert ran.returncode == 0, ran.stdout
