"""The benchmark end to end, with the rival that is always there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.lab import rank

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_records_table_and_picture(tmp_path):
    command = [sys.executable, "-m", "benchmarks.allreduce", "--network", "shm", "--ranks", "2"]
    command += ["--bytes", "64KiB", "--algorithms", "gloo", "--late", "none", "1=0.5"]
    run = subprocess.run(
        [*command, "--repeats", "3", "--out", str(tmp_path), "--timeout-s", "40"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = (tmp_path / "allreduce.jsonl").read_text().splitlines()
    balanced, late = (json.loads(line) for line in lines)
    assert (balanced["late_rank"], balanced["delay_s"]) == (None, 0.0)
    assert balanced["busbw_bytes_s"] == pytest.approx(balanced["algbw_bytes_s"])  # two ranks
    assert (late["late_rank"], late["delay_s"]) == (1, 0.5)
    assert len(late["samples"]) == 3
    for sample in late["samples"]:
        first, last = sample["arrivals_s"]
        assert last - first == pytest.approx(0.5, abs=0.4)  # beside other tests
    # Rank 0 waits for rank 1, whose own call is short.
    assert late["average_elapsed_s"] > late["late_elapsed_s"]
    assert (tmp_path / "allreduce.png").read_bytes().startswith(b"\x89PNG")
    assert "2 ranks sharing one machine, 64 KiB, rank 1 0.5 s late" in run.stdout


class _Named:
    name = "broken"


@pytest.mark.parametrize("wrong_call", [0, 1])
def test_a_single_wrong_element_is_found(monkeypatch, wrong_call):
    monkeypatch.setattr(rank.dist, "get_rank", lambda: 3)
    expected = torch.arange(100.0)
    buckets = [expected.clone(), expected.clone()]
    rank.check(_Named(), buckets, expected)
    buckets[wrong_call][42] += 1
    with pytest.raises(
        AssertionError, match=rf"broken, rank 3, call {wrong_call}: 1 of 100 .* at 42"
    ):
        rank.check(_Named(), buckets, expected)
