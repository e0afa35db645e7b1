"""Ranks on this machine without namespaces, behind the same `run` as the emulated network."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from .closing import Closing
from .launch import RankProgram, RankResult, run_ranks


class Loopback(Closing):
    """Ranks that share one host, over shared memory or over TCP on the loopback device.

    Args:
        ranks: number of ranks.
        shared_memory: let UCX use it; without it UCX takes TCP, as Gloo does anyway.

    """

    def __init__(self, ranks: int, *, shared_memory: bool = True) -> None:
        if ranks < 1:
            raise ValueError(f"{ranks} ranks: at least one is needed")
        self.ranks = ranks
        self.shared_memory = shared_memory

    def programs(self, command: Sequence[str]) -> list[RankProgram]:
        """One program per rank, with the environment of torchrun on a single host."""
        master_port = _free_port()
        return [
            RankProgram(
                command=list(command),
                environment={
                    "RANK": str(rank),
                    "WORLD_SIZE": str(self.ranks),
                    "LOCAL_RANK": str(rank),
                    "LOCAL_WORLD_SIZE": str(self.ranks),
                    "GROUP_RANK": "0",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(master_port),
                    "GLOO_SOCKET_IFNAME": "lo",
                    "UCX_NET_DEVICES": "lo",  # else UCX listens on every interface
                    "OMP_NUM_THREADS": "1",
                    **({} if self.shared_memory else {"UCX_TLS": "tcp,self"}),
                },
            )
            for rank in range(self.ranks)
        ]

    def run(self, command: Sequence[str], **options: Any) -> list[RankResult]:
        """Run one command per rank and wait for all; the options are those of `run_ranks`."""
        return run_ranks(self.programs(command), **options)


def _free_port() -> int:
    # Free now; another program may take it before rank 0 does, which then says so.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
