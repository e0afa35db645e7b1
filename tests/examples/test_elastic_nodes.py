"""Nodes come and go while `elastic_nodes.py` trains, and nothing of it shows in the weights."""

import contextlib
import os
import re
import subprocess
import sys
import time

import pytest
import torch

from .hosts import INTERFACE, Hosts, end, lacking

LONGEST_PHASE_S = 120
NODES = ["node0", "node1"]
VARIABLES = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
INTERFACES = {"GLOO_SOCKET_IFNAME": INTERFACE, "PATALLREDUCE_SOCKET_IFNAME": INTERFACE}


def torchrun(nnodes):
    launcher = f"{sys.executable} -m torch.distributed.run --nproc-per-node 2 --nnodes {nnodes}"
    return [*launcher.split(), "--max-restarts", "100", "--rdzv-id", "train"]


class Job:
    """An agent on each of two hosts, once it is started there."""

    def __init__(self, folder, hosts, command):
        self._folder, self._hosts, self._command = folder, hosts, command
        self._agents = {}

    def start(self, node):
        with self._log(node).open("w") as output:
            self._agents[node] = self._hosts.start(
                node, *self._command, output=output, variables={**VARIABLES, **INTERFACES}
            )

    def lose(self, node):
        end(self._agents.pop(node))

    def close(self):
        for node in list(self._agents):
            self.lose(node)

    def wait_for(self, ranks, after):
        """Until so many ranks have gone on from `after` or later, and have trained since."""

        def trained():
            found = re.findall(rf"^{ranks} ranks go on from iteration (\d+)", self._said(), re.M)
            return found and after <= int(found[-1]) < self.iterations()

        until_s = time.monotonic() + LONGEST_PHASE_S
        while not trained():
            assert time.monotonic() < until_s, self._said()
            assert all(agent.poll() is None for agent in self._agents.values()), self._said()
            time.sleep(0.1)
        return self.iterations()

    def iterations(self):
        """How many have been trained."""
        file = self._folder / "changing" / "checkpoint.pt"
        return torch.load(file, weights_only=True)["iteration"] if file.exists() else 0

    def _said(self):
        return "".join(self._log(node).read_text() for node in self._agents)

    def _log(self, node):
        return self._folder / f"agent{node}.txt"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(5 * LONGEST_PHASE_S)
def test_the_bits_do_not_show_which_nodes_there_were(examples, tmp_path):
    if lack := lacking():
        pytest.skip(lack)
    changing, alone = tmp_path / "changing", tmp_path / "alone"
    changing.mkdir()
    alone.mkdir()
    script = str(examples / "elastic_nodes.py")
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{NODES[0]}:29400"]
    # Those who wait for a second node do so for 30 s otherwise.
    rendezvous += ["--rdzv-conf", "last_call_timeout=3"]
    command = [*torchrun("1:2"), *rendezvous, script, str(changing), "--iterations", "1000000"]
    with contextlib.ExitStack() as closing:
        hosts = closing.enter_context(Hosts(tmp_path, NODES))
        job = Job(tmp_path, hosts, command)
        closing.callback(job.close)
        job.start(0)
        alone_until = job.wait_for(ranks=2, after=0)
        job.start(1)
        both_until = job.wait_for(ranks=4, after=alone_until)
        job.lose(1)
        job.wait_for(ranks=2, after=both_until)
    ended = torch.load(changing / "checkpoint.pt", weights_only=True)

    iterations = str(ended["iteration"])
    again = [*torchrun("1"), "--standalone", script, str(alone), "--iterations", iterations]
    subprocess.run(again, env={**os.environ, **VARIABLES}, check=True, timeout=LONGEST_PHASE_S)
    expected = torch.load(alone / "checkpoint.pt", weights_only=True)["network"]
    assert ended["network"].keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(ended["network"][name], tensor), name
