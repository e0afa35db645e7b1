"""What follows the tutorial takes all of it, in the page's order. `make wheel-check` follows it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import tutorial


def test_all_commands_of_the_page_are_taken_in_their_order():
    taken = tutorial.commands(tutorial.PAGE.read_text(encoding="utf-8"))
    assert [command.split()[:4] for command in taken] == [
        ["python", "-m", "patallreduce", "info"],
        ["torchrun", "--nproc-per-node", "4", "examples/straggler.py"],
        ["python", "-m", "patallreduce", "plot"],
        ["python", "-m", "patallreduce", "stragglers"],
        ["python", "-m", "patallreduce", "trace"],
    ]


def test_a_step_tells_how_it_ended(tmp_path):
    command = [sys.executable, "-c", "print('so far'); raise SystemExit(3)"]
    assert tutorial.ended(command, tmp_path, dict(os.environ)) == (3, "so far\n")


def test_a_step_that_takes_too_long_is_ended_with_what_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(tutorial, "LONGEST_STEP_S", 3)
    started = tmp_path / "started"
    script = f"sleep 1000 & echo $! > {started}; wait"
    with pytest.raises(subprocess.TimeoutExpired):
        tutorial.ended(["bash", "-c", script], tmp_path, dict(os.environ))
    status = Path("/proc", started.read_text().strip(), "stat")
    until_s = time.monotonic() + 10
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until_s
        time.sleep(0.01)
