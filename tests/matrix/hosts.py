"""Where a rank of a cell runs: what it shares with the others, and what its host has."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.lab.namespaces import (
    CLONE_NEWIPC,
    CLONE_NEWTIME,
    available,
    enter_for_good,
    own_mounts,
    system_call,
)
from benchmarks.lab.network import Network, rank_environment

from .cells import RANKS, Cell

OVER_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
RATE_BIT_S = 1e9  # of a port of the network
AHEAD_S = 10 * 86400  # of a clock
_SHM = b"size=64m"  # more than UCX wants of it


def lacking(cell: Cell) -> str:
    """Why this machine cannot run it; empty: it can."""
    if cell.transport in ("mixed", "network") or cell.fault in ("shm_full", "clock_ahead"):
        if not available():
            return f"no namespaces: {available().reason}"
        if cell.fault == "clock_ahead" and not Path("/proc/self/timens_offsets").exists():
            return "no time namespaces"
    return ""


def network(cell: Cell) -> Network | None:
    """The one that its ranks are to share, if any."""
    return Network(RANKS, RATE_BIT_S) if cell.transport == "network" else None


def enter(cell: Cell, rank: int, network: Network | None) -> None:
    """Move this process, of one thread, to where that rank runs; it may go on as another."""
    if cell.transport == "tcp":
        os.environ.update(OVER_TCP)
    if network:
        enter_for_good(network.namespaces[rank])
        os.environ.update(rank_environment(rank, RANKS))
    if cell.transport == "mixed" and rank == RANKS - 1:
        system_call("unshare", CLONE_NEWIPC)
    if rank == cell.victim and cell.fault == "shm_full":
        own_mounts()
        system_call("mount", b"none", b"/dev/shm", b"tmpfs", 0, _SHM)
    if rank == cell.victim and cell.fault == "clock_ahead":
        _go_on_with_clock_ahead()


def _go_on_with_clock_ahead() -> None:
    """Go on as a child in a time namespace of its own; this process ends as that one does."""
    before_s = time.monotonic()
    system_call("unshare", CLONE_NEWTIME)
    Path("/proc/self/timens_offsets").write_text(f"monotonic {AHEAD_S} 0")
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert time.monotonic() > before_s + AHEAD_S
