"""A Slurm cluster of two emulated hosts, for a test; `sbatch` and the like run on the first."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.lab.network import address

from .hosts import Hosts, end, lacking

NODES = ("node1", "node2")
LONGEST_START_S = 30.0
POLL_S = 0.5  # each question is a process
# Accounts, passwords and control groups are left out: none of it matters to a script.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={first}({first_address})
AuthType=auth/none
CredType=cred/none
SlurmUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def lacking_slurm() -> str:
    """Why there can be none here; empty: there can."""
    lack = lacking("slurmctld", "slurmd", "sbatch", "srun")
    return f"{lack} (Debian: slurm-wlm, iproute2)" if lack else ""


class SlurmCluster:
    """Two nodes, the first of which has the controller, too; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "state").mkdir()
        nodes = [f"NodeName={name} NodeAddr={address(i)} CPUs=4" for i, name in enumerate(NODES)]
        configuration = CONFIGURATION.format(
            first=NODES[0], first_address=address(0), folder=folder, nodes="\n".join(nodes)
        )
        self._file = folder / "slurm.conf"
        self._file.write_text(configuration)
        # The kind that is not asked where nothing uses it.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def __enter__(self) -> SlurmCluster:
        with contextlib.ExitStack() as started:
            self._hosts = started.enter_context(Hosts(self._folder, NODES))
            started.enter_context(self._daemon(0, "slurmctld"))
            for node in range(len(NODES)):
                started.enter_context(self._daemon(node, "slurmd"))
            until_s = time.monotonic() + LONGEST_START_S
            while self.run("sinfo --noheader --format %T || true").split() != ["idle"]:
                assert time.monotonic() < until_s, self.logs()
                time.sleep(POLL_S)
            self._close = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def run(self, command: str, variables: Mapping[str, str] | None = None) -> str:
        """What a command of a shell says on the first node."""
        settings = {**(variables or {}), "SLURM_CONF": str(self._file)}
        return self._hosts.run(0, "sh", "-ec", command, limit_s=LONGEST_START_S, variables=settings)

    def wait_for(self, job: str, limit_s: float) -> str:
        """The state in which a job ended."""
        until_s = time.monotonic() + limit_s
        while True:
            told = self.run(f"scontrol --oneliner show job {job}").split()
            facts = dict(fact.split("=", 1) for fact in told if "=" in fact)
            if facts["EndTime"] != "Unknown" and facts["JobState"] not in ("RUNNING", "COMPLETING"):
                return facts["JobState"]
            assert time.monotonic() < until_s, f"{facts}{self.logs()}"
            time.sleep(POLL_S)

    def logs(self) -> str:
        """What the daemons tell."""
        files = sorted(self._folder.glob("*.log"))
        return "".join(f"\n--- {file.name}\n{file.read_text()}" for file in files)

    @contextlib.contextmanager
    def _daemon(self, node: int, program: str) -> Iterator[None]:
        command = (program, "-D", "-f", str(self._file))
        process = self._hosts.start(node, *command, output=subprocess.DEVNULL)
        try:
            yield
        finally:
            end(process)
