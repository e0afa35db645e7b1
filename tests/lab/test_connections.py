"""Two ranks have as many connections as PATALLREDUCE_CONNECTIONS says."""

import pytest

pytestmark = pytest.mark.network

SUM = """
import pathlib, torch, torch.distributed as dist, patallreduce as pat

def connections():
    lines = pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[3] == "01" for line in lines)  # established

dist.init_process_group("gloo")
before = connections()
with pat.Communicator(monitor=False) as communicator:
    for _ in range(2):
        data = torch.arange(1 << 20, dtype=torch.float32) * (communicator.rank + 1)
        communicator.all_reduce(data, algorithm="ring")
        assert torch.equal(data, torch.arange(1 << 20, dtype=torch.float32) * 3)
    print(connections() - before)
    dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("asked", "expected"), [("", 1), ("16", 16)])
def test_connections_are_as_many_as_asked_for(network_lab, monkeypatch, asked, expected):
    monkeypatch.setenv("PATALLREDUCE_CONNECTIONS", asked)
    code, output = network_lab.run(2, SUM)
    assert code == 0, output
    assert sorted(output.splitlines()) == [f"[{rank}] {expected}" for rank in range(2)]
