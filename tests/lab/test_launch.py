"""The launcher without namespaces: it starts, watches and ends ranks the same way."""

import signal
import sys

import pytest

from benchmarks.lab import Loopback, RankFailedError, RankTimeoutError

WITH_CHILD_THEN_SLEEP = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("started", flush=True)
time.sleep(60)
"""


def run(ranks, program, **options):
    with Loopback(ranks) as network:
        return network.run([sys.executable, "-c", program], **{"timeout_s": 20, **options})


def test_results_come_by_rank_with_what_each_printed():
    results = run(3, "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'])")
    assert [(r.rank, r.exit_code, r.output) for r in results] == [
        (rank, 0, f"{rank} 3\n") for rank in range(3)
    ]


def test_long_output_is_neither_lost_nor_blocking():
    (result,) = run(1, "print('x' * 1_000_000)")
    assert len(result.output) == 1_000_001


def test_first_failure_ends_the_others_and_names_the_rank():
    program = """
import os, time
if os.environ["RANK"] == "1":
    print("out of paper")
    raise SystemExit(3)
time.sleep(60)
"""
    with pytest.raises(RankFailedError, match=r"rank 1 .* 3.*\n.*out of paper") as caught:
        run(3, program)
    assert caught.value.failed.exit_code == 3


def test_without_check_every_rank_runs_to_its_end():
    program = "import os, time; time.sleep(0.3); raise SystemExit(int(os.environ['RANK']))"
    assert [result.exit_code for result in run(3, program, check=False)] == [0, 1, 2]


def test_timeout_names_the_ranks_still_running():
    program = "import os, time; time.sleep(60 * (os.environ['RANK'] != '0'))"
    with pytest.raises(RankTimeoutError, match=r"ranks \[1, 2\] still running after 1.0 s"):
        run(3, program, timeout_s=1.0)


def test_exit_code_and_prefixed_lines_reach_the_command_line(plain_lab):
    code, output = plain_lab.run(
        2,
        "import os, time; print('here', flush=True); rank = int(os.environ['RANK']);"
        "time.sleep(2 * rank);"  # its failure ends rank 0, which must have spoken by then
        "raise SystemExit(5 * rank)",
    )
    assert code == 5
    assert "[0] here" in output.splitlines()
    assert "[1] here" in output.splitlines()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_children_of_ranks_end_too(plain_lab, end):
    with plain_lab.start(2, WITH_CHILD_THEN_SLEEP) as launcher:
        assert [launcher.stdout.readline()[4:] for _ in range(2)] == ["started\n"] * 2
        launcher.send_signal(end)
        assert launcher.wait(timeout=10) == 128 + end
    assert plain_lab.left_behind() == []


def test_ranks_end_with_a_killed_launcher(plain_lab):
    with plain_lab.start(2, "import time; print(1, flush=True); time.sleep(60)") as launcher:
        assert launcher.stdout.readline()
        launcher.kill()
        launcher.wait(timeout=10)
        assert plain_lab.left_behind() == []


def test_loopback_needs_a_rank():
    with pytest.raises(ValueError, match="0 ranks"):
        Loopback(0)
