"""Jobs go by a tuning file that suits them, and say so of one that does not."""

import math
import os
from functools import partial

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.decisions.machine import processor
from patallreduce.decisions.rules import FileRule, TuningFile
from patallreduce.decisions.times import Method
from tests.processes import RankFailure
from tests.threads import on_threads

HERE = {"transport": "loopback", "processors": [processor()]}


def saved(tmp_path, monkeypatch, *rules, machine=HERE):
    path = tmp_path / "tuning.json"
    TuningFile(machine, rules).save(path)
    monkeypatch.setenv("PATALLREDUCE_TUNING_FILE", str(path))
    return path


def rule(collective, algorithm, segment_bytes=0, sizes=(0, math.inf), beside=False):
    everywhere = (1, math.inf)
    method = Method(algorithm, segment_bytes)
    return FileRule(collective, everywhere, everywhere, sizes, beside, method)


def ran(comm, call):
    tensor = torch.ones(1 << 14) * (comm.rank + 1)
    call(comm, tensor)
    return comm.stats()[-1]["call"]


CALLS = {
    "all_reduce": lambda comm, tensor: comm.all_reduce(tensor),
    "reduce": lambda comm, tensor: comm.reduce(tensor, 0),
    "broadcast": lambda comm, tensor: comm.broadcast(tensor, 0),
    "all_gather": lambda comm, tensor: comm.all_gather(tensor),
    "reduce_scatter": lambda comm, tensor: comm.reduce_scatter(tensor),
}


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("all_reduce", "two_tree"),
        ("reduce", "chain_reduce"),
        ("broadcast", "chain_broadcast"),
        ("all_gather", "bruck_all_gather"),
        ("reduce_scatter", "recursive_halving_reduce_scatter"),
    ],
)
def test_calls_go_by_the_file(tmp_path, monkeypatch, communicators, collective, algorithm):
    saved(tmp_path, monkeypatch, rule(collective, algorithm))
    comms = communicators(4)
    assert all(algorithm in call for call in on_threads(comms, ran, CALLS[collective]))
    # What is asked for, and the environment, come before.
    named = pat.algorithms(collective)
    other = next(name for name in named if name not in (algorithm, "slt_dynamic", "prr"))
    asked = {
        "all_reduce": lambda comm, tensor: comm.all_reduce(tensor, algorithm=other),
        "reduce": lambda comm, tensor: comm.reduce(tensor, 0, algorithm=other),
        "broadcast": lambda comm, tensor: comm.broadcast(tensor, 0, other),
        "all_gather": lambda comm, tensor: comm.all_gather(tensor, other),
        "reduce_scatter": lambda comm, tensor: comm.reduce_scatter(tensor, algorithm=other),
    }[collective]
    assert all(other in call for call in on_threads(comms, ran, asked))


def test_the_file_says_how_finely_to_cut(tmp_path, monkeypatch, communicators):
    saved(tmp_path, monkeypatch, rule("all_reduce", "ring", segment_bytes=4096))
    calls = on_threads(communicators(4), ran, CALLS["all_reduce"])
    assert all("16 segments" in call for call in calls)
    assert all(
        "8 segments" in call
        for call in on_threads(
            communicators(4), ran, lambda comm, tensor: comm.all_reduce(tensor, segments=8)
        )
    )


def test_the_environment_comes_before_the_file(tmp_path, monkeypatch, communicators):
    saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"))
    monkeypatch.setenv("PATALLREDUCE_ALGORITHM", "rabenseifner")
    calls = on_threads(communicators(4), ran, CALLS["all_reduce"])
    assert all("rabenseifner" in call for call in calls)


def test_arrivals_that_are_known_come_before_the_file(tmp_path, monkeypatch, communicators):
    saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"))
    calls = on_threads(
        communicators(4),
        ran,
        lambda comm, tensor: comm.all_reduce(tensor, arrivals_s=[0, 0, 0, 1.0]),
    )
    assert not any("two_tree" in call for call in calls)


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ({**HERE, "processors": ["another"]}, "expected a processor of another"),
        ({**HERE, "transport": "ucx"}, "expected transport ucx, got loopback"),
        ({**HERE, "link": {"latency_s": 1e-5, "bytes_per_s": 1e6}}, "a link of about 1 MB/s"),
    ],
)
def test_a_file_of_another_machine_is_left_aside(tmp_path, monkeypatch, machine, text):
    saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"), machine=machine)
    with pytest.warns(RuntimeWarning, match=text):
        comms = pat.Communicator.loopback(2)
    assert not any("two_tree" in call for call in on_threads(comms, ran, CALLS["all_reduce"]))
    for comm in comms:
        comm.close()


def test_a_file_that_makes_no_sense_is_an_error(tmp_path, monkeypatch):
    path = saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"))
    path.write_text(path.read_text().replace("two_tree", "three_tree"))
    with pytest.raises(ValueError, match="line .*did you mean 'two_tree'"):
        pat.Communicator.loopback(2)
    monkeypatch.setenv("PATALLREDUCE_TUNING_FILE", str(tmp_path / "none.json"))
    with pytest.raises(OSError, match="none.json"):
        pat.Communicator.loopback(2)


def test_a_rule_that_never_matches_is_told(tmp_path, monkeypatch):
    saved(tmp_path, monkeypatch, rule("all_reduce", "ring"), rule("all_reduce", "slt"))
    with pytest.warns(RuntimeWarning, match="never matches"):
        pat.Communicator.loopback(1)[0].close()


def create_with_own_file(folder):
    rank = dist.get_rank()
    path = f"{folder}/{rank}.json"
    everywhere, method = (1, math.inf), Method("two_tree" if rank else "ring")
    rules = (FileRule("all_reduce", everywhere, everywhere, (0, math.inf), False, method),)
    TuningFile({"transport": "ucx", "processors": [processor()]}, rules).save(path)
    os.environ["PATALLREDUCE_TUNING_FILE"] = path
    try:
        pat.Communicator(timeout_s=20).close()
    finally:
        del os.environ["PATALLREDUCE_TUNING_FILE"]


def test_ranks_with_different_files_do_not_start(processes, tmp_path):
    outcomes = processes.outcomes(2, create_with_own_file, str(tmp_path))
    for outcome in outcomes:
        assert isinstance(outcome, RankFailure)
        assert "rules by PATALLREDUCE_TUNING_FILE: expected the same on all ranks" in str(
            outcome.error
        )


def call_by_file(path):
    os.environ["PATALLREDUCE_TUNING_FILE"] = path
    with pat.Communicator(monitor=False, link=pat.Link(1e-3, 1e7), timeout_s=60) as comm:
        return ran(comm, CALLS["all_reduce"])


@pytest.mark.network
def test_rules_are_for_ranks_and_hosts(processes, emulated, tmp_path):
    four, two, any_size = (4, 4), (2, 2), (0, math.inf)
    rules = (
        FileRule("all_reduce", four, four, any_size, False, Method("rabenseifner")),
        FileRule("all_reduce", four, two, any_size, False, Method("two_tree")),
    )
    path = str(tmp_path / "tuning.json")
    TuningFile({"transport": "ucx", "processors": [processor()]}, rules).save(path)
    with emulated(4, 100e6, ranks_per_node=2) as network:
        calls = processes.on(network, partial(call_by_file, path))
    assert ["two_tree" in call for call in calls] == [True] * 4
