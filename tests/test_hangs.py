"""A hang fails its test, says where, and leaves the tests after it alone."""

import os
import re
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).parents[1]
LIMIT_S = 6  # of a test; usually 50, which is less than a minute, too
LONGEST_S = 240  # of all of them on a busy machine; half a minute on an idle one
MARK = "HANGING_TEST_MARK"


def alive(mark):
    """Command lines of all that the tests started and that is still there; it gets 2 s to end."""
    until_s = time.monotonic() + 2
    while (found := [*with_mark(mark)]) and time.monotonic() < until_s:
        time.sleep(0.02)
    return found


def with_mark(mark):
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                yield (process / "cmdline").read_text()
        except OSError:  # ended meanwhile
            continue


@pytest.fixture(name="said", scope="module")
def said_fixture():
    mark = uuid.uuid4().hex
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    arguments = ("-v", "-n", "1", "-p", "no:cacheprovider", "tests/hanging.py")
    env = kept | {"PYTEST_TIMEOUT": str(LIMIT_S), MARK: mark}
    # Who is ended by force leaves its temporary files.
    with tempfile.TemporaryDirectory() as folder:
        env["TMPDIR"] = folder
        run = programs.run_module("pytest", *arguments, limit_s=LONGEST_S, cwd=ROOT, env=env)
        assert run.returncode == 1, run.stdout
        assert alive(mark) == []
    return run.stdout


pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST_S + 20)]


def failure(said, name):
    """What was said of a test that failed."""
    assert re.search(rf"FAILED tests/hanging.py::{name}\b", said), said
    return re.split(r"\n_{3,} ", said.split(f" {name} ___")[-1])[0]


@pytest.mark.parametrize(
    "name", ["processes_are_there", "processes_go_on", "threads_go_on", "tests_go_on"]
)
def test_other_tests_pass(said, name):
    assert re.search(rf"PASSED tests/hanging.py::test_{name}\b", said), said


def test_a_process_that_hangs_is_named_with_its_stack(said):
    text = failure(said, "test_a_process_hangs")
    assert "RankDiedError: rank 1 gave no result in time" in text
    assert "in rank_1_waits" in text
    assert "rank 0" not in text


def test_threads_that_hang_are_named_with_their_stacks(said):
    text = failure(said, "test_threads_hang")
    assert re.search(r"RankHungError: rank 1 hangs(\n.*)+ threading\.Event\(\)\.wait\(\)", text)
    assert re.search(r"rank 2 hangs(\n.*)+library\.pthread_mutex_lock\(mutex\)", text)
    assert "rank 0 hangs" not in text


def test_a_test_that_hangs_is_interrupted(said):
    assert f"Timeout (>{LIMIT_S}.0s)" in failure(said, "test_a_test_hangs")


def test_after_a_process_that_cannot_be_interrupted_another_goes_on(said):
    name = "test_native_code_hangs_and_keeps_the_interpreter"
    assert re.search(rf"crashed while running 'tests/hanging.py::{name}'", said), said
    assert re.search(r'File ".*/hanging.py", line \d+ in lock_twice', said), said
    assert re.search(r"PASSED tests/hanging.py::test_a_new_process_goes_on", said), said
