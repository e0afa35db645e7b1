"""Whatever ends a rank, the others end too, in time, with its name, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.failures import rounds as failures

ENDINGS = Path(__file__).with_name("endings.py")
FAULTLESS = ["left_one_by_one", "left_pending", "left_owing", "unclosed"]
LONGEST_S = 100  # of all endings, one after the other; 20 s of processor time
NAMES = ["killed", "interrupted", "raised", "left", *FAULTLESS, "failed_unclosed"]
pytestmark = pytest.mark.timeout(LONGEST_S + 20)


@pytest.mark.alone
@pytest.mark.parametrize(
    "case",
    [
        failures.Case("kill", "shm", "during", 1),
        failures.Case("kill", "tcp", "after", 3),
        failures.Case("stop", "tcp", "before", 1),
    ],
    ids=str,
)
def test_the_others_name_a_rank_that_is_gone(case):
    check(failures.run(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", list(failures.cases(48)), ids=str)
def test_the_others_name_a_rank_that_is_gone_in_every_case(case):
    check(failures.run(case))


def check(outcome):
    assert outcome.problems == []
    assert not outcome.hung
    assert 0 <= outcome.detect_s < failures.limit_s(outcome.case)


@pytest.fixture(name="ended", scope="module")
def ended_fixture(tmp_path_factory):
    """What each of endings.py came to, by its name."""
    folder = tmp_path_factory.mktemp("endings")
    ran = subprocess.Popen(
        [sys.executable, ENDINGS, folder, *NAMES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = ran.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)  # its forks as well
        raise
    assert "UCX" not in output + errors
    assert "terminate called" not in errors
    assert "Traceback" not in errors
    return {line["name"]: line for line in map(json.loads, output.splitlines())}


@pytest.fixture(name="end")
def end_fixture(ended):
    """What each rank met in one of endings.py, by rank."""
    return lambda name: ended[name]["ranks"]


def test_killed(end):
    ranks = end("killed")
    assert ranks[1]["status"] == -signal.SIGKILL
    for rank in (ranks[0], ranks[2]):
        assert (rank["raised"], rank["named"], rank["status"]) == ("PeerLostError", 1, 0)


def test_interrupted(end):
    ranks = end("interrupted")
    assert (ranks[1]["raised"], ranks[1]["status"]) == ("KeyboardInterrupt", 0)
    for rank in (ranks[0], ranks[2]):
        assert (rank["raised"], rank["named"], rank["status"]) == ("TransportError", 1, 0)


def test_an_exception_between_collectives_ends_the_others(end):
    ranks = end("raised")
    assert (ranks[1]["raised"], ranks[1]["status"]) == ("ZeroDivisionError", 0)
    for rank in (ranks[0], ranks[2]):
        assert (rank["raised"], rank["named"], rank["status"]) == ("TransportError", 1, 0)
        assert "ZeroDivisionError: of its own" in rank["text"]


def test_a_rank_that_closes_while_others_still_call(end):
    ranks = end("left")
    assert ranks[1] == {"rank": 1, "status": 0}
    for rank in (ranks[0], ranks[2]):
        assert (rank["raised"], rank["named"], rank["status"]) == ("PeerLostError", 1, 0)
        assert "after 1 collectives" in rank["text"]
        assert "called number 2" in rank["text"]


@pytest.mark.parametrize("name", FAULTLESS)
def test_nothing_is_wrong_with(ended, name):
    assert ended[name]["ranks"] == [{"rank": rank, "status": 0} for rank in range(3)]
    assert ended[name]["took_s"] < 30


def test_no_close_after_a_failure(end):
    ranks = end("failed_unclosed")
    assert ranks[1]["status"] == 3
    for rank in (ranks[0], ranks[2]):
        assert (rank["raised"], rank["named"], rank["status"]) == ("PeerLostError", 1, 0)
