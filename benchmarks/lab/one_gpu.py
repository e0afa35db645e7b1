"""Ranks that share one GPU, each a host of its own to NCCL.

NCCL refuses two ranks on one GPU of one host. What a host is, it takes from NCCL_HOSTID; so with
one per rank it connects them as it would over a network, by sockets, here on the loopback device.

The GPU runs its processes in turns of some milliseconds, and a message waits for its receiver's
turn. An MPS server (NVIDIA's multi-process service) lets them run side by side: `mps=True` starts
one for these ranks alone, which changes no setting of the GPU.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from .launch import RankProgram
from .loopback import Loopback

MPS_CONTROL = "nvidia-cuda-mps-control"
MPS_TIMEOUT_S = 20.0


def nccl_environment(rank: int) -> dict[str, str]:
    """What NCCL has to find in the environment of this rank before it is loaded."""
    return {
        "NCCL_HOSTID": f"patallreduce-{rank}",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_NET": "Socket",  # no plugin, no InfiniBand
        "NCCL_IB_DISABLE": "1",
        "NCCL_RAS_ENABLE": "0",  # its port is one per host
        "NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN"),  # says why it fails
    }


class OneGpu(Loopback):
    """Ranks on this machine's first GPU, with the environment of torchrun on a single host.

    Args:
        ranks: number of ranks.
        mps: start an MPS server for them.

    Raises:
        OSError, subprocess.SubprocessError: there is no MPS here.

    """

    def __init__(self, ranks: int, *, mps: bool = False) -> None:
        super().__init__(ranks)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if mps:
            self._folder = tempfile.TemporaryDirectory(prefix="patallreduce-mps-")
            self._control("-d")

    def programs(self, command: Sequence[str]) -> list[RankProgram]:
        """One program per rank; NCCL's settings are in place before anything loads it."""
        return [
            replace(
                program,
                environment={
                    **program.environment,
                    **nccl_environment(rank),
                    **self._mps_environment(),
                },
            )
            for rank, program in enumerate(super().programs(command))
        ]

    def close(self) -> None:
        """End the MPS server. Idempotent."""
        if self._folder is not None:
            try:
                self._control(say="quit")
            finally:
                self._folder.cleanup()
                self._folder = None

    def _mps_environment(self) -> dict[str, str]:
        if self._folder is None:
            return {}
        folder = self._folder.name  # a server of our own: others find theirs elsewhere
        return {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}

    def _control(self, *arguments: str, say: str = "") -> None:
        subprocess.run(
            [MPS_CONTROL, *arguments],
            env={**os.environ, **self._mps_environment()},
            input=say + "\n",
            text=True,
            check=True,
            timeout=MPS_TIMEOUT_S,
        )
