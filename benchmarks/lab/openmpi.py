"""The same ranks started by Open MPI, so that its all-reduce can be measured beside ours.

mpirun runs in rank 0's namespace and reaches the other "hosts" through an agent in ssh's place
(plm_rsh_agent): called as `agent HOST COMMAND`, it enters the namespace whose address that is.
mpirun and the daemons are supervised: should the launcher be killed, the daemons would wait for
ever, as rank 0's network vanishes with its processes and no connection is ever seen to close.
So a program started this way can use MPI and, by the torchrun-style environment, torch as well.

    launcher -- mpirun (rank 0's namespace) --+-- rank 0
                                              +-- agent -> namespace 1 -> orted -- rank 1
                                              +-- agent -> namespace 2 -> orted -- rank 2

Waiting ranks yield the processor (mpi_yield_when_idle): 8 ranks that poll on 2 cores would only
measure the scheduler. One-sided and UCX components are left out, so that no second UCX gets into
the process.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .launch import RankProgram, RankResult, run_ranks
from .loopback import Loopback
from .namespaces import enter_for_good
from .network import Network, address, rank_environment
from .supervise import run_supervised

SUBNET = "10.77.0.0/16"
LAUNCHER = "LAB_LAUNCHER_PID"
NAMESPACES = "LAB_NAMESPACES"  # descriptors in the launcher, by rank, separated by commas


def openmpi_missing() -> str:
    """Name what is missing to run Open MPI; empty if nothing is."""
    if shutil.which("mpirun") is None:
        return "mpirun (Debian: openmpi-bin)"
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py"
    return ""


def run_openmpi(
    network: Network | Loopback, command: Sequence[str], **options: Any
) -> list[RankResult]:
    """Run the command once per rank under mpirun; one result, mpirun's own.

    The rank is in OMPI_COMM_WORLD_RANK (RANK holds rank 0's where ranks share a host).
    The options are those of `run_ranks`.
    """
    first = network.programs(command)[0]
    mpirun = [
        *(sys.executable, "-m", "benchmarks.lab.supervise"),
        *("mpirun", "-np", str(network.ranks), "--bind-to", "none"),
        *("--mca", "mpi_yield_when_idle", "1"),
        *("--mca", "pml", "ob1", "--mca", "osc", "^ucx"),
    ]
    environment = {
        **first.environment,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # inside a user namespace everyone is root
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # The shared-memory store of Debian's PMIx 4 prints an error at every start.
        "PMIX_MCA_gds": "hash",
    }
    if isinstance(network, Loopback):
        mpirun += ["--oversubscribe", "--mca", "btl", "vader,self"]
        return run_ranks([RankProgram([*mpirun, *command], environment)], **options)
    environment[LAUNCHER] = str(os.getpid())
    environment[NAMESPACES] = ",".join(map(str, network.namespaces))
    with tempfile.TemporaryDirectory() as folder:
        hosts = Path(folder, "hosts")
        hosts.write_text("".join(f"{address(r)} slots=1\n" for r in range(network.ranks)))
        mpirun += [
            *("--mca", "orte_tmpdir_base", folder),
            *("--hostfile", str(hosts), "--map-by", "node"),
            *("--mca", "plm_rsh_agent", f"{sys.executable} -m benchmarks.lab.openmpi"),
            *("--mca", "plm_rsh_no_tree_spawn", "1", "--leave-session-attached"),
            *("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", SUBNET),
            *("--mca", "oob_tcp_if_include", SUBNET),
        ]
        program = RankProgram([*mpirun, *command], environment, first.namespace)
        return run_ranks([program], **options)


def agent() -> None:
    """Stand in for ssh: run a command in the namespace of the host named first."""
    host, *command = sys.argv[1:]
    namespaces = os.environ[NAMESPACES].split(",")
    rank = [address(r) for r in range(len(namespaces))].index(host)
    descriptor = f"/proc/{os.environ[LAUNCHER]}/fd/{namespaces[rank]}"
    enter_for_good(os.open(descriptor, os.O_RDONLY))
    os.environ.update(rank_environment(rank, len(namespaces)))
    run_supervised(["sh", "-c", " ".join(command)])


if __name__ == "__main__":
    agent()
