"""torch.use_deterministic_algorithms(True): what "auto" then stands for."""

import os

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce.communicator.settler import Arguments
from tests.processes import LINK

SLOW_LINK = pat.Link(50e-6, 25e6)  # where "auto" would be planned


@pytest.fixture(name="communicator")
def communicator_fixture():
    (communicator,) = pat.Communicator.loopback(1, link=LINK)
    yield communicator
    communicator.close()


def algorithm_of(communicator, elements=10, **arguments):
    return str(communicator.session.settle(torch.ones(elements), Arguments(**arguments)))


def test_auto_is_reproducible_while_the_flag_holds(communicator, monkeypatch):
    assert "reproducible" not in algorithm_of(communicator)
    torch.use_deterministic_algorithms(True)
    try:
        assert "reproducible" in algorithm_of(communicator)
        assert "reproducible" in algorithm_of(communicator, segments=3)
        assert "ring" in algorithm_of(communicator, algorithm="ring")
        monkeypatch.setenv("PATALLREDUCE_ALGORITHM", "slt")
        assert "slt" in algorithm_of(communicator, elements=11)  # a call is settled once
    finally:
        torch.use_deterministic_algorithms(False)
    monkeypatch.delenv("PATALLREDUCE_ALGORITHM")
    assert "reproducible" not in algorithm_of(communicator)


def sums_and_trains():
    """A plain call and the hook's, both where a plan would otherwise be made."""
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    try:
        with pat.Communicator(timeout_s=30, link=SLOW_LINK) as communicator:
            communicator.all_reduce(torch.ones(100_000))
            plain = communicator.stats()
        model = DistributedDataParallel(nn.Linear(300, 300))
        handle = pat.register(model, link=SLOW_LINK, timeout_s=30)
        for _ in range(2):
            model(torch.ones(1, 300) * dist.get_rank()).sum().backward()
        hooked = handle.communicator.stats()
        handle.close()
        return [(s["planned"], s["schedule"].split()[0]) for s in [*plain, *hooked]]
    finally:
        torch.use_deterministic_algorithms(False)


def test_plain_calls_and_the_hook_take_it_and_no_plan(processes):
    found = processes.run(3, sums_and_trains)
    assert all(len(of_rank) >= 3 for of_rank in found)
    assert {case for of_rank in found for case in of_rank} == {(False, "reproducible")}


def registers_reproducible():
    model = DistributedDataParallel(nn.Linear(30, 30))
    handle = pat.register(model, link=LINK, timeout_s=30, reproducible=True)
    model(torch.ones(1, 30)).sum().backward()
    used = {s["schedule"].split()[0] for s in handle.communicator.stats()}
    handle.close()
    return used


def test_register_takes_it(processes):
    assert processes.run(2, registers_reproducible) == [{"reproducible"}] * 2


def one_rank_differs():
    torch.use_deterministic_algorithms(dist.get_rank() == 1)
    try:
        with pat.Communicator(timeout_s=30, link=LINK) as communicator:
            communicator.all_reduce(torch.ones(1000))
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_rank_without_the_flag_is_a_mismatch_on_all(processes):
    assert "PATALLREDUCE_ALGORITHM" not in os.environ
    for outcome in processes.outcomes(3, one_rank_differs):
        assert isinstance(outcome.error, pat.MismatchError)
        assert "reproducible" in str(outcome.error)
