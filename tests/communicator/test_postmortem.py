"""What ranks leave when their communicator fails, and what is read from it."""

import json
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.records import postmortem
from tests.processes import RankDiedError


def fails(folder, how):
    os.environ["PATALLREDUCE_POSTMORTEM"] = folder
    try:
        rank = dist.get_rank()
        communicator = pat.Communicator(timeout_s=1, monitor=False, link=pat.Link(20e-6, 1e9))
        for _ in range(3):
            communicator.all_reduce(torch.ones(10), algorithm="ring")
        if rank == 1 and how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and how == "late":
            while communicator.usable:
                time.sleep(0.01)
        with pytest.raises(pat.TransportError):
            communicator.all_reduce(torch.ones(10), algorithm="ring")
        communicator.close()
        communicator.close()
    finally:
        del os.environ["PATALLREDUCE_POSTMORTEM"]


def test_a_late_rank_is_named(processes, tmp_path):
    processes.run(3, fails, str(tmp_path), "late")
    said = postmortem.explain(postmortem.load(tmp_path))
    assert "ranks 0, 1 and 2 left a record" in said
    assert "TransportTimeout: collective 3" in said
    assert "The first collective without a result was number 3, 10 elements of float32" in said
    assert "So they waited for rank 1, not there yet: rank 1 had called 3." in said
    record = json.loads(next(tmp_path.glob("*-rank-0.json")).read_text())
    assert [call["number"] for call in record["last"]] == [0, 1, 2, 3]
    assert record["completed"] == 3
    (waiting,) = record["waiting"]
    # Rank 2 may have called a moment earlier: its deadline is then the one that all ranks hear of.
    assert record["at_s"] - waiting["arrival_s"] > 0.5


def test_a_killed_rank_leaves_none(processes, tmp_path):
    outcomes = processes.outcomes(3, fails, str(tmp_path), "killed")
    assert isinstance(outcomes.pop(1).error, RankDiedError)
    assert outcomes == [None, None]
    said = postmortem.explain(postmortem.load(tmp_path))
    assert "Rank 1 left none: killed" in said
    assert "PeerLostError: rank 1 was lost" in said
    assert "rank 1, not there yet: rank 1 had called 3, as far as the others know" in said


def leaves(folder):
    os.environ["PATALLREDUCE_POSTMORTEM"] = folder
    try:
        with pat.Communicator(timeout_s=10) as communicator:
            communicator.all_reduce(torch.ones(10))
    finally:
        del os.environ["PATALLREDUCE_POSTMORTEM"]


def test_nothing_is_written_where_nothing_fails(processes, tmp_path):
    processes.run(2, leaves, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def record(rank, called, waits_for=None, **more):
    waiting = [{"number": 7, "call": "a ring", "arrival_s": 10.0, "for_plan": False}]
    if waits_for is None:
        waiting = []
    else:
        waiting[0]["waits_for"] = waits_for
    return {
        **{"communicator": "a", "rank": rank, "ranks": 3, "unix_s": 1.0, "error": "E: text"},
        **{"at_s": 12.5, "called": called, "peers": [{"called": 8, "heard_s": 0}] * 3},
        "waiting": waiting,
    } | more


def test_who_waits_for_whom_is_followed_to_its_end():
    said = postmortem.explain([record(0, 8, 1), record(1, 8, 2)])
    assert "Rank 0 had waited 2.5 s for rank 1." in said
    assert said.endswith("All had called it. So they waited for rank 2, which left no record.")
    said = postmortem.explain([record(0, 8, 1), record(1, 8, 2), record(2, 8, 0)])
    assert said.endswith("All had called it, and waited for each other.")
    said = postmortem.explain([record(0, 8, 1), record(1, 8, 2), record(2, 9)])
    assert said.endswith("rank 2, which had called it, too, and did not wait.")


def test_different_errors_are_told_apart():
    said = postmortem.explain([record(0, 8), record(1, 8, error="F"), record(2, 8)])
    assert "Ranks 0 and 2 ended with: E: text." in said
    assert "Rank 1 ended with: F." in said
    assert "No rank waited" in said


def test_the_newest_communicator_counts(tmp_path):
    postmortem.write(tmp_path, record(0, 1))
    postmortem.write(tmp_path, record(1, 1) | {"communicator": "b", "unix_s": 2.0})
    assert [one["rank"] for one in postmortem.load(tmp_path)] == [1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rank": 1}'])
def test_a_folder_of_something_else_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match="no records"):
        postmortem.load(tmp_path)
    (tmp_path / "a-rank-0.json").write_text(text)
    with pytest.raises(ValueError, match=r"a-rank-0\.json"):
        postmortem.load(tmp_path)
