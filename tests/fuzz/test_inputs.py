"""The inputs that the fuzzers kept, without a fuzzer; `make fuzz` looks for more."""

import tarfile
from pathlib import Path

import pytest

from tests import programs

INPUTS = Path(__file__).parent / "inputs"
PROGRAMS = Path(__file__).parents[2] / "build" / "simulated"
LIMIT_S = 60


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize("name", ["engine", "leader"])
def test_what_fuzzers_found_interesting_does_no_harm(name, tmp_path):
    program = PROGRAMS / f"replay_{name}"
    if not program.exists():
        pytest.skip("`make test` builds it")
    with tarfile.open(INPUTS / f"{name}.tar.gz") as archive:
        # Python 3.10 and 3.11 have the filter from some release on.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **safely)
    ran = programs.run(program, tmp_path, limit_s=LIMIT_S)
    replayed = ran.stdout.splitlines()
    assert ran.returncode == 0, replayed[-1:]
    assert len(replayed) == len(list(tmp_path.iterdir())) > 100
