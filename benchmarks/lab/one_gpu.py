"""Ranks that share one GPU, each a host of its own to NCCL.

NCCL refuses two ranks on one GPU of one host. What a host is, it takes from NCCL_HOSTID; so with
one per rank it connects them as it would over a network, by sockets, here on the loopback device.
The GPU runs its processes in turns, a few milliseconds each, where no MPS server lets them run side
by side: a message then waits for its receiver's turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .launch import RankProgram
from .loopback import Loopback


def nccl_environment(rank: int) -> dict[str, str]:
    """What NCCL has to find in the environment of this rank before it is loaded."""
    return {
        "NCCL_HOSTID": f"patallreduce-{rank}",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_NET": "Socket",  # no plugin, no InfiniBand
        "NCCL_IB_DISABLE": "1",
        "NCCL_RAS_ENABLE": "0",  # its port is one per host
    }


class OneGpu(Loopback):
    """Ranks on this machine's first GPU, with the environment of torchrun on a single host."""

    def programs(self, command: Sequence[str]) -> list[RankProgram]:
        """One program per rank; NCCL's settings are in place before anything loads it."""
        return [
            replace(program, environment={**program.environment, **nccl_environment(rank)})
            for rank, program in enumerate(super().programs(command))
        ]
