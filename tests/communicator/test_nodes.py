"""Ranks that share nodes: right sums by node, and who is found to share one."""

import pytest
import torch

import patallreduce as pat
from patallreduce.communicator.host import Host, nodes
from tests.threads import on_threads

NODES = [0, 1, 0, 1, 1]


def sums(communicator, algorithm):
    values = torch.arange(1000.0) * (communicator.rank + 1)
    hints = [0.3, 0.1, 0.2, 0.1, 0.5] if algorithm in ("slt", "prr", "direct_exchange") else None
    communicator.all_reduce(values, algorithm=algorithm, arrivals_s=hints)
    return values, communicator.stats()[-1]["schedule"]


def test_every_algorithm_sums_right_and_some_work_by_node():
    communicators = pat.Communicator.loopback(len(NODES), 20.0, nodes=NODES)
    for algorithm in ("auto", *pat.algorithms()):
        results = on_threads(communicators, lambda one, name=algorithm: sums(one, name))
        for values, schedule in results:
            assert torch.equal(values, torch.arange(1000.0) * 15)
            by_node = algorithm in ("ring", "slt", "prr", "direct_exchange", "reproducible")
            assert ("by nodes [0, 1, 0, 1, 1]" in schedule) == by_node or algorithm == "auto"
        assert communicators[0].nodes == NODES
    on_threads(communicators, pat.Communicator.close)


def hosts(*of):
    return [Host("one", node, None, None) for node in of]


def test_nodes_are_those_of_ranks_that_share_a_port_with_some():
    assert nodes(hosts("a", "b", "a", "c")) == [0, 1, 0, 2]
    assert nodes(hosts("a", "a")) == []
    assert nodes(hosts("a", "b")) == []


def test_nodes_can_be_left_aside(monkeypatch):
    monkeypatch.setenv("PATALLREDUCE_NODES", "0")
    assert nodes(hosts("a", "b", "a")) == []


def schedules_of_nodes():
    with pat.Communicator(timeout_s=60.0) as communicator:
        values = torch.full((1 << 18,), float(communicator.rank + 1))
        communicator.all_reduce(values)
        assert bool((values == 10).all())
        communicator.all_reduce(values, algorithm="slt", arrivals_s=[0.0, 0.0, 0.3, 0.0])
        assert bool((values == 40).all())
        assert communicator.nodes == [0, 0, 1, 1]
        # The link between hosts was measured, not the memory.
        assert communicator.link.bytes_per_s < 12.5e6
        return [one["schedule"] for one in communicator.stats()]


@pytest.mark.network
def test_processes_on_two_hosts_find_their_nodes(processes, emulated):
    with emulated(4, 100e6, ranks_per_node=2) as network:
        for schedules in processes.on(network, schedules_of_nodes):
            assert all("by nodes [0, 0, 1, 1]" in schedule for schedule in schedules)
