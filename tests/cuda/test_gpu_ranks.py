"""2, 4 and 8 ranks on one GPU over NCCL: right sums, no leaks, errors in time.

Each rank is a process with a NCCL_HOSTID of its own (benchmarks/lab/one_gpu.py). What they do is
tests/cuda/rank_bodies.py, which also runs without a GPU (tests/gpu/test_rank_bodies.py).
"""

import time
from pathlib import Path

import pytest

from tests.cuda.rank_bodies import assert_clean, assert_gone, growth, run_processes

ROOT = Path(__file__).parents[2]
RANKS = [2, 4, 8]


@pytest.fixture(autouse=True)
def _needs_a_gpu(gpu, monkeypatch):
    assert gpu.device == 0
    monkeypatch.chdir(ROOT)


def assert_same_bits(met):
    assert len({one["digest"] for one in met}) == 1, "ranks ended with different bits"


@pytest.mark.parametrize("ranks", RANKS)
def test_every_algorithm_and_dtype(ranks):
    met, results = run_processes(ranks, "sums", 120.0)

    assert_clean(results)
    assert [one["wrong"] for one in met] == [[]] * ranks
    assert met[0]["calls"] > 50
    assert_same_bits(met)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("transport", ["staged", "ucx"])
def test_every_algorithm_and_dtype_over_ucx(ranks, transport):
    met, results = run_processes(ranks, "sums_or_refusal", 120.0, transport=transport)

    assert_clean(results)
    if transport == "ucx" and "refused" in met[0]:
        pytest.skip(met[0]["refused"])
    assert [one["wrong"] for one in met] == [[]] * ranks
    assert_same_bits(met)


@pytest.mark.parametrize("ranks", RANKS)
def test_ddp_is_at_parity_over_100_steps(ranks):
    met, results = run_processes(ranks, "parity", 120.0)

    assert_clean(results)
    assert max(one["apart"] for one in met) < 1e-4
    assert_same_bits(met)


# At 8 ranks the GPU's turns alone may take minutes.
@pytest.mark.parametrize("ranks", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_a_thousand_iterations_leave_nothing_behind(ranks):
    met, results = run_processes(ranks, "endurance", 240.0)

    assert_clean(results)
    for one in met:
        assert one["right"]
        assert growth(one, 1000) == {}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_rank_that_is_gone(ranks, how):
    started_s = time.monotonic()
    met, results = run_processes(ranks, how, 90.0)

    assert_gone(met, results, how)
    assert time.monotonic() - started_s < 80.0
