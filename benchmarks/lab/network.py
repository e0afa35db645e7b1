"""An emulated network: every rank behind a full-duplex switch port of a set rate.

    rank0 [tbf]----[tbf] port0 --+            One namespace per rank, one more for the bridge.
    rank1 [tbf]----[tbf] port1 --+ bridge     The left filter limits what a rank sends, the
    rank2 [tbf]----[tbf] port2 --+            right one what it receives.

The token bucket (tc-tbf) stands for the wire, its queue for the memory of host and switch:

- *burst*, the bytes that may pass at once, is what a transfer gets for nothing, so it should be
  small. But it must hold one whole packet with all its headers, and the kernel hands over up to
  64 KiB as one packet: if the burst is less, tbf cuts every packet into frames, the processor
  becomes the limit, and eight ranks measure their scheduler (Gloo's ring then takes 500 to 600 ms
  where the wire needs 306). So packets are limited to 16 KiB (gso_max_size), and the burst is two
  of them, or 1 ms of the rate if that is more: a timer late by less than that costs no bandwidth.
- *queue*, the bytes that may wait at a port before packets are dropped, is 1 MiB: what a small
  switch has for a port. Two ranks sending to one at full rate fill it and see loss, as they would.
  Over long ways it is what comes in a round trip, if that is more: a rule of thumb for routers.

The rate counts Ethernet, IP and TCP headers, as on a wire: 1448 of 1514 bytes are payload.
Two cores carry eight ranks at 500 Mbit/s (Gloo's ring within 5 % of what the wire needs); at
1 Gbit/s the processor is the limit.

With several ranks per node, those of a node share its namespace, hence its port, and its memory;
a PID and an IPC namespace per node keep them from the memory of others.

With a latency each port's wire is a cable that takes half of it, in both directions (cables.py);
with sites it is only between them, each site a bridge of its own, and no rate limits it there.

Congestion control is reno: the one that every kernel has and lets every namespace choose, so
figures do not depend on how the machine is configured otherwise (bbr: Gloo's ring 3 % slower).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from .cables import Cables, new_tap
from .closing import Closing
from .launch import RankProgram, RankResult, run_ranks
from .namespaces import Host, entered, make_namespace

PACKET_BYTES = 16 * 1024
QUEUE_BYTES = 1 << 20
HEADER_BYTES = 256  # more than Ethernet, IP and TCP headers with options
MASTER_PORT = 29500  # free: the namespace is new


def parse_rate(text: str) -> float:
    """Read "200mbit", "1gbit", "2.5gbit" or plain bits per second."""
    for suffix, factor in {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "bit": 1.0, "": 1.0}.items():
        if text.lower().endswith(suffix):
            with contextlib.suppress(ValueError):
                rate_bit_s = float(text[: len(text) - len(suffix)]) * factor
                if rate_bit_s > 0:
                    return rate_bit_s
    raise ValueError(f"rate {text!r}: expected a positive number with kbit, mbit or gbit")


class Network(Closing):
    """Ranks behind switch ports; a context manager.

    Args:
        ranks: number of ranks, 1 to 4096.
        rate_bit_s: rate of each rank's port in each direction; one for all or one per rank.
        congestion_control: of TCP in the ranks' namespaces; None keeps the machine's.
        ranks_per_node: consecutive ranks that share a port; rates are then one for all or one per
            node.
        latency_s: that the wires add, one way.
        sites: consecutive ports are shared out among so many; latency_s is between two sites. 1: it
            is between any two ports.
        slow_start_after_idle: as Linux does by default: a connection that rested for longer than
            its retransmission timeout begins with a small window again.
        window_bytes: that one connection can receive in a round trip: with a latency this limits a
            connection, as clouds do. 0: as the machine is set.
        shallow: queues are 1 MiB over long ways, too.

    Raises:
        NamespaceError: namespaces cannot be made here; `available()` says why.

    """

    def __init__(
        self,
        ranks: int,
        rate_bit_s: float | Sequence[float],
        *,
        congestion_control: str | None = "reno",
        ranks_per_node: int = 1,
        latency_s: float = 0.0,
        sites: int = 1,
        slow_start_after_idle: bool = True,
        window_bytes: int = 0,
        shallow: bool = False,
    ) -> None:
        nodes = -(-ranks // ranks_per_node)
        rates_bit_s = [rate_bit_s] * nodes if isinstance(rate_bit_s, int | float) else rate_bit_s
        if not 1 <= ranks <= 4096 or len(rates_bit_s) != nodes or min(rates_bit_s) <= 0:
            raise ValueError(f"{nodes} ports with rates {rate_bit_s}: one positive rate per port")
        if latency_s < 0 or not 1 <= sites <= nodes:
            raise ValueError(f"{sites} sites of {nodes} ports, {latency_s} s apart")
        self.latency_s = latency_s
        self._queued_s = 0.0 if shallow else 2 * latency_s
        self.sites = sites
        self.ranks = ranks
        self.ranks_per_node = ranks_per_node
        self._hosts: list[Host] = []
        self.rates_bit_s = list(rates_bit_s)
        self.namespaces: list[int] = []
        self._switch = -1
        self.cables: Cables | None = None
        settings = {"tcp_slow_start_after_idle": str(int(slow_start_after_idle))}
        if window_bytes:
            memory_bytes = 2 * window_bytes  # half of it is for the kernel's own use
            settings["tcp_rmem"] = f"4096 {memory_bytes} {memory_bytes}"
        if congestion_control:
            settings["tcp_congestion_control"] = congestion_control
        try:
            self._build(settings)
        except BaseException:
            self.close()
            raise

    def _build(self, settings: dict[str, str]) -> None:
        self._switch = make_namespace()
        cables: list[tuple[int, int, float]] = []
        with _devices(self._switch) as switch:
            bridges = [_add_bridge(switch, f"bridge{site}") for site in range(self.sites)]
            if self.sites > 1:
                core = _add_bridge(switch, "core")
                for site, bridge in enumerate(bridges):
                    names = (f"site{site}", f"core{site}")
                    outer, inner = (new_tap(self._switch, name) for name in names)
                    cables.append((outer, inner, self.latency_s / 2))
                    for name, master in zip(names, (bridge, core), strict=True):
                        index = _index(switch, name)
                        switch.link("set", index=index, master=master, state="up")
            for rank, rate_bit_s in enumerate(self.rates_bit_s):  # or node
                namespace = make_namespace()
                self.namespaces.append(namespace)
                if self.latency_s and self.sites == 1:
                    inside, outside = (
                        new_tap(namespace, device_name(rank)),
                        new_tap(self._switch, _port(rank)),
                    )
                    cables.append((inside, outside, self.latency_s / 2))
                else:
                    peer = {"ifname": device_name(rank), "net_ns_fd": namespace}
                    switch.link("add", ifname=_port(rank), kind="veth", peer=peer)
                bridge = bridges[rank * self.sites // len(self.rates_bit_s)]
                bucket = self._token_bucket(rate_bit_s)
                _set_up_device(switch, _port(rank), bucket, master=bridge)
                with _devices(namespace) as host:
                    host.link("set", index=_index(host, "lo"), state="up")
                    _set_up_device(host, device_name(rank), bucket, address=address(rank))
                    for name, value in settings.items():
                        _set(name, value)
                if self.ranks_per_node > 1:
                    self._hosts.append(Host())
        if cables:
            self.cables = Cables(cables)

    def programs(self, command: Sequence[str]) -> list[RankProgram]:
        """One program per rank, each in the rank's namespace."""
        programs = []
        for rank in range(self.ranks):
            node = rank // self.ranks_per_node
            environment = rank_environment(rank, self.ranks, self.ranks_per_node)
            host = self._hosts[node].pid if self._hosts else None
            programs.append(RankProgram(list(command), environment, self.namespaces[node], host))
        return programs

    def run(self, command: Sequence[str], **options: Any) -> list[RankResult]:
        """Run one command per rank and wait for all; the options are those of `run_ranks`."""
        return run_ranks(self.programs(command), **options)

    def unplug(self, rank: int) -> None:
        """Cut that rank off: its port goes down, and what waits there is lost."""
        self._set_port(rank, "down")

    def plug_in(self, rank: int) -> None:
        """Undo `unplug`."""
        self._set_port(rank, "up")

    def _set_port(self, rank: int, state: str) -> None:
        with _devices(self._switch) as switch:
            switch.link("set", index=_index(switch, _port(rank)), state=state)

    def set_rate(self, rank: int, rate_bit_s: float) -> None:
        """Change the rate of that rank's port, in both directions."""
        self.rates_bit_s[rank] = rate_bit_s
        for namespace, name in (
            (self._switch, _port(rank)),
            (self.namespaces[rank], device_name(rank)),
        ):
            with _devices(namespace) as devices:
                bucket = self._token_bucket(rate_bit_s)
                devices.tc("change", "tbf", _index(devices, name), **bucket)

    def _token_bucket(self, rate_bit_s: float) -> dict[str, int]:
        rate_bytes_s = int(rate_bit_s / 8)
        burst_bytes = max(2 * (PACKET_BYTES + HEADER_BYTES), rate_bytes_s // 1000)
        limit_bytes = max(QUEUE_BYTES, int(self._queued_s * rate_bytes_s), 2 * burst_bytes)
        return {"rate": rate_bytes_s, "burst": burst_bytes, "limit": limit_bytes}

    def close(self) -> None:
        """Drop the namespaces, and with them everything in them; may be called again."""
        if self.cables is not None:
            self.cables.close()
        while self._hosts:
            self._hosts.pop().close()
        for namespace in [*self.namespaces, self._switch]:
            if namespace >= 0:
                os.close(namespace)
        self.namespaces, self._switch = [], -1


def device_name(rank: int) -> str:
    """Name of a rank's network device inside its namespace."""
    return f"rank{rank}"


def address(rank: int) -> str:
    """IPv4 address of a rank, all in 10.77.0.0/16."""
    host = rank + 1
    return f"10.77.{host // 256}.{host % 256}"


def rank_environment(rank: int, ranks: int, ranks_per_node: int = 1) -> dict[str, str]:
    """Give a rank the environment it would have from torchrun on its host.

    Of ranks on hosts of their own UCX_TLS leaves out shared memory: they are on one machine only by
    emulation.
    """
    node, local_rank = divmod(rank, ranks_per_node)
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(min(ranks_per_node, ranks - node * ranks_per_node)),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": address(0),
        "MASTER_PORT": str(MASTER_PORT),
        "GLOO_SOCKET_IFNAME": device_name(node),
        **({"UCX_TLS": "tcp,self"} if ranks_per_node == 1 else {}),
        "UCX_NET_DEVICES": device_name(node),
        "OMP_NUM_THREADS": "1",
        # c10d warns that it cannot find a name for its peer; there is no resolver in here.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }


def _port(rank: int) -> str:
    return f"port{rank}"


@contextlib.contextmanager
def _devices(namespace: int) -> Iterator[Any]:
    """What sets them up, with the calling thread in that namespace."""
    from pyroute2 import IPRoute  # type: ignore[import-untyped]

    with entered(namespace), IPRoute() as devices:
        yield devices


def _index(devices: Any, name: str) -> int:
    (index,) = devices.link_lookup(ifname=name)
    return int(index)


def _add_bridge(devices: Any, name: str) -> int:
    devices.link("add", ifname=name, kind="bridge")
    index = _index(devices, name)
    devices.link("set", index=index, state="up")
    return index


def _set_up_device(
    routes: Any, name: str, bucket: dict[str, int], *, master: int = 0, address: str = ""
) -> None:
    index = _index(routes, name)
    if master:
        routes.link("set", index=index, master=master)
    if address:
        routes.addr("add", index=index, address=address, prefixlen=16)
    routes.link("set", index=index, gso_max_size=PACKET_BYTES, state="up")
    routes.tc("add", "tbf", index, **bucket)


def _set(name: str, value: str) -> None:
    # /proc/sys/net shows the namespace of the thread that opens it.
    with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as setting:
        setting.write(value)
