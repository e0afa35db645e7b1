"""How the ranks of a communicator reach each other: processes over UCX, threads over loopback."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import torch.distributed as dist

from patallreduce import _core
from patallreduce.communicator import environment, forks, host, ucx
from patallreduce.communicator.rendezvous import Rendezvous, SupersededError, store_gone
from patallreduce.communicator.settings import Settings, compare


class Connections(NamedTuple):
    """One rank's connections to the others."""

    transport: _core.Transport
    aside: _core.Transport | None  # of the monitor's messages; None: there is no monitor
    local_ranks: int  # on this host, with this rank
    rendezvous: Rendezvous | None = None  # of ranks that are processes
    name: str = "loopback"  # the same on all ranks, another for each communicator
    nodes: Sequence[int] = ()  # by rank; (): no two share one, or all do
    share_memory: bool = False  # all ranks do: none has a port


class Met(NamedTuple):
    """What one rank tells the others once it has connected; JSON carries it."""

    readable: list[int]  # ranks whose memory it can read
    unreached: tuple[int | None, str] | None  # whom, and why; all else is empty then


def of_processes(
    process_group: dist.ProcessGroup | None,
    timeout_s: float,
    settings: Settings,
    *,
    monitor: bool,
) -> Connections:
    """Connect with all ranks of a group. Collective.

    Raises:
        MismatchError: the ranks' settings differ.
        TransportTimeout: a rank did not come.
        PeerLostError: a rank's process ended.
        TransportError: UCX is absent or too old, or a rank cannot be reached.
    """
    try:
        rendezvous = Rendezvous(process_group, timeout_s)
        while True:
            try:
                return _meet(rendezvous, settings, monitor=monitor)
            except SupersededError:
                rendezvous.join()
    except dist.DistNetworkError as error:
        raise store_gone(process_group, error) from error


def _meet(rendezvous: Rendezvous, settings: Settings, *, monitor: bool) -> Connections:
    # First what all ranks give: with another secret than the others' all of them find out.
    settings = {**settings, "size of the process group": str(rendezvous.ranks)}
    hosts = []
    first = settings
    shared = rendezvous.share_json("here", [settings, host.here(rendezvous.ranks)])
    for rank, (theirs, of_host) in enumerate(shared):
        first = theirs if rank == 0 else first
        compare(first, theirs, rank)  # before the next is waited for, who may never come
        hosts.append(host.Host(*of_host))
    # Of all ranks, lest who repeats old values to one of them makes it take an old key.
    public = b"".join(rendezvous.share("random", secrets.token_bytes(16)))
    host.check(hosts)
    transports = host.transports(hosts, rendezvous.rank)
    connections = environment.get_count("CONNECTIONS") or 1
    native, unreached = _connect(rendezvous, "address", public, transports, connections)
    aside = None
    if monitor and rendezvous.ranks > 1:
        aside, unreached_aside = _connect(rendezvous, "monitor", public, transports)
        unreached = unreached or unreached_aside
    mine = Met([] if unreached else native.readable(), unreached)
    met = [Met(*values) for values in rendezvous.share_json("met", mine)]
    _check_reached(met)
    native.set_direct([rank for rank in native.readable() if native.rank in met[rank].readable])
    forks.let_go(native, aside)
    local_ranks = sum(one.name == hosts[rendezvous.rank].name for one in hosts)
    name = hashlib.sha256(public).hexdigest()[:8]
    nodes, share_memory = host.nodes(hosts), host.share_memory(hosts)
    return Connections(native, aside, local_ranks, rendezvous, name, nodes, share_memory)


def of_threads(
    ranks: int,
    *,
    monitor: bool,
    monitor_delay_s: float = 0.0,
    monitor_seed: int = 0,
    nodes: Sequence[int] = (),
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
        made.append(Connections(_core.Loopback(hub, rank), aside, ranks, nodes=nodes))
    return made


def _check_reached(met: list[Met]) -> None:
    """Raise, alike on all ranks, if one of them could not be reached.

    Whom it cannot reach, a rank without a network says of the others: most ranks are right.
    """
    unreached = [one.unreached for one in met if one.unreached]
    if unreached:
        named = [rank for rank, _ in unreached]
        rank, text = max(unreached, key=lambda one: named.count(one[0]))
        error = _core.TransportError(text)
        error.rank = rank
        raise error


def _connect(
    rendezvous: Rendezvous, name: str, public: bytes, transports: str, connections: int = 1
) -> tuple[_core.Ucx, tuple[int | None, str] | None]:
    """The connections to all ranks, and which one cannot be reached, and why."""
    native = _core.Ucx(
        ucx.library_path(),
        rendezvous.rank,
        rendezvous.ranks,
        rendezvous.secret.derive(name, public),
        secret=rendezvous.secret.known,
        transports=transports,
        net_devices=environment.get("SOCKET_IFNAME") or "",
        connections=connections,
    )
    addresses = rendezvous.share(name, native.address())
    try:
        native.connect(addresses)
    except _core.TransportError as error:
        # Others still connect to this rank: with its sockets closed they would miss it instead.
        return native, (error.rank, str(error))
    return native, None
