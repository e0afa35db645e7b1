"""How the ranks of a communicator reach each other: processes over UCX, threads over loopback."""

from __future__ import annotations

import secrets
import socket
from typing import NamedTuple

import torch.distributed as dist

from patallreduce import _core
from patallreduce.communicator import environment, ucx
from patallreduce.communicator.rendezvous import Rendezvous, SupersededError


class Connections(NamedTuple):
    """One rank's connections to the others."""

    transport: _core.Transport
    aside: _core.Transport | None  # of the monitor's messages; None: there is no monitor
    local_ranks: int  # on this host, with this rank
    rendezvous: Rendezvous | None = None  # of ranks that are processes


def of_processes(
    process_group: dist.ProcessGroup | None, timeout_s: float, *, monitor: bool
) -> Connections:
    """Connect with all ranks of a group. Collective.

    Raises:
        TransportTimeout: a rank did not come.
        TransportError: UCX is absent or too old.
    """
    rendezvous = Rendezvous(process_group, timeout_s)
    while True:
        try:
            return _meet(rendezvous, monitor=monitor)
        except SupersededError:
            rendezvous.join()


def _meet(rendezvous: Rendezvous, *, monitor: bool) -> Connections:
    token = int.from_bytes(rendezvous.from_rank_0("token", secrets.token_bytes(8)), "little")
    hosts = rendezvous.share_json("host", socket.gethostname() + "/" + _boot_id())
    native = _connect(rendezvous, "address", token)
    reads = rendezvous.share_json("reads", native.readable())
    native.set_direct([peer for peer in native.readable() if native.rank in reads[peer]])
    aside = None
    if monitor and rendezvous.ranks > 1:
        aside = _connect(rendezvous, "monitor", token ^ 1)
    return Connections(native, aside, hosts.count(hosts[rendezvous.rank]), rendezvous)


def of_threads(
    ranks: int, *, monitor: bool, monitor_delay_s: float = 0.0, monitor_seed: int = 0
) -> list[Connections]:
    """[rank] -> its connections, within this process; the arguments are `loopback`'s."""
    hub, hub_aside = _core.LoopbackHub(ranks), _core.LoopbackHub(ranks)
    made = []
    for rank in range(ranks):
        aside: _core.Transport | None = None
        if monitor and ranks > 1:
            aside = _core.Loopback(hub_aside, rank)
            if monitor_delay_s > 0:
                aside = _core.Delayed(aside, monitor_delay_s, monitor_seed)
        made.append(Connections(_core.Loopback(hub, rank), aside, ranks))
    return made


def _connect(rendezvous: Rendezvous, name: str, token: int) -> _core.Ucx:
    native = _core.Ucx(
        ucx.library_path(),
        rendezvous.rank,
        rendezvous.ranks,
        token,
        environment.get("SOCKET_IFNAME") or "",
    )
    native.connect(rendezvous.share(name, native.address()))
    return native


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
