import signal
import subprocess
import sys

import pytest

from benchmarks.lab import launch

FAMILY = """
import os, subprocess, sys, time
# A group of its own, as a daemon's worker has.
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
child = subprocess.Popen(SLEEPER, preexec_fn=os.setpgrp)
print("started", flush=True)
time.sleep(60)
"""

UNDER_SUPERVISION = f"""
import os, sys
command = [sys.executable, "-m", "benchmarks.lab.supervise", sys.executable, "-c", '''{FAMILY}''']
os.execv(sys.executable, command)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_grandchildren_end_with_the_launcher(plain_lab, end):
    with plain_lab.start(2, UNDER_SUPERVISION) as launcher:
        lines = [launcher.stdout.readline() for _ in range(2)]
        assert ["started" in line for line in lines] == [True, True], lines
        launcher.send_signal(end)
        launcher.wait(timeout=10)
        assert plain_lab.left_behind() == []


@pytest.mark.parametrize(("program", "code"), [("exit 0", 0), ("exit 9", 9), ("kill -9 $$", 137)])
def test_exit_code_of_the_command(lab_root, program, code):
    command = [sys.executable, "-m", "benchmarks.lab.supervise", "sh", "-c", program]
    assert subprocess.run(command, cwd=lab_root, timeout=10, check=False).returncode == code


def test_a_process_that_was_forked_meanwhile_is_killed_too(monkeypatch):
    seen = iter([[11, 12], [11, 12, 13], [11, 12, 13]])
    killed = []
    monkeypatch.setattr(launch, "_processes", lambda: next(seen))
    monkeypatch.setattr(launch, "_session", lambda pid: 7)
    monkeypatch.setattr(launch.os, "kill", lambda pid, _: killed.append(pid))
    launch.kill_sessions({7})
    assert sorted(killed) == [11, 12, 13]
