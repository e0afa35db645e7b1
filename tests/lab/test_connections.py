"""Two ranks have as many connections as PATALLREDUCE_CONNECTIONS says."""

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat

pytestmark = pytest.mark.network


def established():
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[3] == "01" for line in lines)


def more_connections(asked):
    os.environ["PATALLREDUCE_CONNECTIONS"] = asked
    before = established()
    with pat.Communicator(monitor=False) as communicator:
        for _ in range(2):
            data = torch.arange(1 << 20, dtype=torch.float32) * (communicator.rank + 1)
            communicator.all_reduce(data, algorithm="ring")
            assert torch.equal(data, torch.arange(1 << 20, dtype=torch.float32) * 3)
        more = established() - before
        dist.barrier()
        return more


@pytest.mark.parametrize(("asked", "expected"), [("", 1), ("16", 16)])
def test_connections_are_as_many_as_asked_for(processes, emulated, asked, expected):
    with emulated(2, 200e6) as network:
        assert processes.on(network, more_connections, asked) == [expected] * 2
