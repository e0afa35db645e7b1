"""A training run under torchrun: one agent for all ranks, or two on hosts of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

from benchmarks.lab.namespaces import die_with_parent, enter_for_good
from benchmarks.lab.network import Network, address, rank_environment

RANKS = 4
LONGEST_START_S = 120.0
RATE_BIT_S = 1e9
PORT = 29400  # free: the namespace is new
WORKER = Path(__file__).with_name("worker.py")


class Job:
    """What torchrun runs, with a new start of all ranks whenever one is killed."""

    def __init__(self, folder: Path, agents: int) -> None:
        self.folder = folder
        folder.mkdir()
        self._network = Network(agents, RATE_BIT_S) if agents > 1 else None
        self._agents: list[subprocess.Popen[bytes]] = []
        for agent in range(agents):
            self._agents.append(self._start(agent, agents))

    def _start(self, agent: int, agents: int) -> subprocess.Popen[bytes]:
        # Else the ranks' store is that of the start before, with Gloo's addresses of then.
        environment = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        arguments = ["--nproc-per-node", str(RANKS // agents), "--max-restarts", "1000000"]
        if self._network:
            environment |= rank_environment(agent, agents)
            arguments += [
                "--nnodes",
                str(agents),
                "--rdzv-backend",
                "c10d",
                "--rdzv-id",
                "restarts",
            ]
            arguments += ["--rdzv-endpoint", f"{address(0)}:{PORT}", "--local-addr", address(agent)]
            arguments += ["--rdzv-conf", f"is_host={agent == 0}"]
        else:
            arguments += ["--standalone"]
        parent = os.getpid()

        def prepare() -> None:
            die_with_parent(parent)
            if self._network:
                enter_for_good(self._network.namespaces[agent])

        with (self.folder / f"agent{agent}.txt").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *arguments, WORKER, self.folder],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509 -- as in benchmarks.lab.launch
            )

    def living(self) -> list[int]:
        """The processes of its ranks that are there just now."""
        return [pid for pid in self._told("started") if _is_worker(pid)]

    def training(self, not_these: set[int]) -> list[int]:
        """The processes of its ranks, once all train and none of them is one of these."""
        until_s = time.monotonic() + LONGEST_START_S
        while True:
            pids = self._told("trains")
            if len(pids) == RANKS and not_these.isdisjoint(pids):
                return pids
            if time.monotonic() > until_s or any(one.poll() is not None for one in self._agents):
                raise TimeoutError(f"no training after {LONGEST_START_S} s; see {self.folder}")
            time.sleep(0.02)

    def _told(self, what: str) -> list[int]:
        files = [self.folder / f"{what}-{rank}" for rank in range(RANKS)]
        return [int(file.read_text()) for file in files if file.exists()]

    def iteration(self) -> int:
        """Of its last checkpoint; 0: none."""
        file = self.folder / "checkpoint.pt"
        return int(torch.load(file)["iteration"]) if file.exists() else 0

    def finish(self, last: int) -> str:
        """Let it train to that iteration; the fingerprint of its weights."""
        (self.folder / "new").write_text(str(last))
        (self.folder / "new").rename(self.folder / "last")
        for agent in self._agents:
            agent.wait(LONGEST_START_S + last)
        return (self.folder / "fingerprint").read_text()

    def end(self) -> None:
        """Whatever is left of it."""
        for agent in self._agents:
            with suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)
        if self._network:
            self._network.close()


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        return str(WORKER).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
