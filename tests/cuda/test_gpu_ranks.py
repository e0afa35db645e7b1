"""2, 4 and 8 ranks on one GPU over NCCL: right sums, no leaks, errors in time.

Each rank is a process with a NCCL_HOSTID of its own (benchmarks/lab/one_gpu.py). What they do is
tests/cuda/rank_bodies.py, which also runs without a GPU (tests/streams/test_rank_bodies.py).
"""

import json
import signal
import sys
import time
from pathlib import Path

import pytest

from benchmarks.lab.one_gpu import OneGpu
from tests.cuda.rank_bodies import DEADLINE_S, RESULT, VICTIM, growth

ROOT = Path(__file__).parents[2]
RANKS = [2, 4, 8]
TEARDOWN_S = 20.0  # to give up a communicator and end a process


@pytest.fixture(name="run")
def run_fixture(gpu, monkeypatch):
    """`run(4, "sums")`: what each rank met and how it ended."""
    assert gpu.device == 0
    monkeypatch.chdir(ROOT)

    def run(ranks, body, timeout_s):
        command = [sys.executable, "-m", "tests.cuda.rank_bodies", body, str(timeout_s - 5)]
        with OneGpu(ranks) as one_gpu:
            results = one_gpu.run(command, timeout_s=timeout_s, check=False)
        met = []
        for result in results:
            lines = [line for line in result.output.splitlines() if line.startswith(RESULT)]
            met.append(json.loads(lines[0].removeprefix(RESULT)) if lines else None)
        return met, results

    return run


def assert_clean(results):
    for result in results:
        assert result.exit_code == 0, result.output[-2000:]
        assert "Traceback" not in result.output
        assert "terminate called" not in result.output


@pytest.mark.parametrize("ranks", RANKS)
def test_every_algorithm_and_dtype(run, ranks):
    met, results = run(ranks, "sums", 120.0)

    assert_clean(results)
    assert [one["wrong"] for one in met] == [[]] * ranks
    assert met[0]["calls"] > 50
    assert len({one["digest"] for one in met}) == 1, "ranks ended with different bits"


# At 8 ranks the GPU's turns alone may take minutes.
@pytest.mark.parametrize("ranks", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_a_thousand_iterations_leave_nothing_behind(run, ranks):
    met, results = run(ranks, "endurance", 240.0)

    assert_clean(results)
    for one in met:
        assert one["right"]
        assert growth(one, 1000) == {}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_rank_that_is_gone(run, ranks, how):
    started_s = time.monotonic()
    met, results = run(ranks, how, 90.0)
    took_s = time.monotonic() - started_s

    victim = results.pop(VICTIM)
    assert victim.exit_code == (-signal.SIGKILL if how == "killed" else 0), victim.output
    assert_clean(results)
    for rank, one in enumerate(met):
        if rank == VICTIM:
            continue
        first, again = one["first"], one["again"]
        assert first["raised"] in {"TransportTimeout", "TransportError"}
        assert first["took_s"] < DEADLINE_S + TEARDOWN_S
        assert (again["raised"], again["text"]) == (first["raised"], first["text"])
        assert again["took_s"] < 1.0
        if how == "silent":
            assert first["raised"] == "TransportTimeout"
            assert f"did not end within {DEADLINE_S:g} s" in first["text"]
    assert took_s < 80.0
