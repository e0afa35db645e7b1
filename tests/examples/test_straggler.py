"""The tutorial's job, and the one that hangs, as a reader runs them."""

import os
import subprocess
import sys

import pytest

import patallreduce as pat
from patallreduce.records import postmortem


def torchrun(script, ranks, folder, **variables):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*launcher, "--nproc-per-node", str(ranks), str(script)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )


@pytest.mark.slow
def test_the_tutorial_names_the_slow_rank(examples, tmp_path):
    printed = torchrun(examples / "straggler.py", 4, tmp_path).stdout

    assert "rank 2 is late by" in printed
    iterations = pat.load_iterations(tmp_path / "run.jsonl")
    assert pat.straggler_report(iterations).ranks[2].median_s > 0.03


@pytest.mark.slow
def test_the_rank_that_did_not_call_is_named(examples, tmp_path):
    folder = tmp_path / "postmortem"
    printed = torchrun(
        examples / "hang.py", 3, tmp_path, PATALLREDUCE_POSTMORTEM=str(folder)
    ).stdout

    assert "TransportTimeout, rank 1:" in printed
    assert "rank 1 had not called it" in printed
    assert "waited for rank 1" in postmortem.explain(postmortem.load(folder))
