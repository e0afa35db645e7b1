"""What a host gives its ranks: memory to share, room for UCX's buffers, file descriptors.

UCX looks for none of it beforehand: it touches shared memory that is not there, and aborts the
process where it can open no file. And it listens on all network interfaces also where all ranks
share one host and nothing ever comes that way.
"""

from __future__ import annotations

import functools
import logging
import os
import resource
import socket
from typing import NamedTuple

from patallreduce import _core
from patallreduce.arguments import refused
from patallreduce.communicator import environment, ucx

_log = logging.getLogger("patallreduce")

_SHARED_MEMORY = {"posix", "sysv"}
# UCX 1.21 takes 21 descriptors and 2 per rank, over TCP 19 and 4 per rank, and 8.7 MB of /dev/shm.
_FILES = 48
_FILES_PER_RANK = 6
_POSIX_BYTES = 16 << 20  # of one rank
_PATTERN_MARKS = "^*?["  # as UCX reads them


class Host(NamedTuple):
    """What one rank tells the others of where it runs; JSON carries it."""

    name: str  # equal on ranks that share processors
    node: str  # equal on ranks that share a port to the others
    memory: str | None  # equal on ranks that can share memory; None: UCX is to find out
    lack: str | None  # why this rank cannot connect


def here(ranks: int) -> Host:
    """This process's host, before it connects with that many ranks."""
    boot_id = _read("/proc/sys/kernel/random/boot_id")
    memory = None
    try:
        lack = _lack_of_files(ranks) or _lack_of_device()
        memory = _memory(boot_id)
    except _core.TransportError as error:  # UCX is absent
        lack = str(error)
    name = f"{socket.gethostname()}/{boot_id}"
    return Host(name, f"{name}/{_space('net')}", memory, lack)


def nodes(hosts: list[Host]) -> list[int]:
    """By rank, its node; [] where no two ranks share one, or all do."""
    if environment.get_flag("NODES") is False:
        return []
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(one.node, len(numbers)) for one in hosts]
    return found if 1 < len(numbers) < len(hosts) else []


def share_memory(hosts: list[Host]) -> bool:
    """Whether all ranks do, and none reaches another through a port."""
    return hosts[0].memory is not None and len({host.memory for host in hosts}) == 1


def transports(hosts: list[Host], rank: int) -> str:
    """What UCX is to use, as UCX_TLS; "": its own choice, or the user's."""
    if "UCX_TLS" in os.environ:
        return ""
    without = []
    if share_memory(hosts):
        without.append("tcp")
    needed = _POSIX_BYTES * sum(host.name == hosts[rank].name for host in hosts)
    if (free := _free_bytes("/dev/shm")) < needed:
        _log.info("/dev/shm has %d of %d bytes: using System V shared memory", free, needed)
        without.append("posix")
    return "^" + ",".join(without) if without else ""


def check(hosts: list[Host]) -> None:
    """Raise, alike on all ranks, if one of them cannot connect."""
    for lacking, one in enumerate(hosts):
        if one.lack is not None:
            error = _core.TransportError(f"rank {lacking}: {one.lack}")
            error.rank = lacking
            raise error


def _memory(boot_id: str) -> str | None:
    """Equal where UCX reaches one process from the other without a network."""
    kinds = {resource.split("/")[0] for resource in _resources()}
    if "UCX_TLS" in os.environ or not kinds & _SHARED_MEMORY:
        return None
    try:
        spaces = [_space(space) for space in ("ipc", "pid", "net")]
        return "/".join([boot_id, *spaces, str(os.stat("/dev/shm").st_dev), str(os.getuid())])
    except OSError:
        return None


def _space(kind: str) -> str:
    return os.readlink(f"/proc/self/ns/{kind}")


@functools.cache
def _resources() -> list[str]:
    return _core.ucx_resources(ucx.library_path())


def _lack_of_device() -> str | None:
    """Where none of the devices asked for is there; UCX would only print a warning."""
    asked = environment.get("SOCKET_IFNAME")
    if asked is None or asked == "all" or any(mark in asked for mark in _PATTERN_MARKS):
        return None
    devices = {name for _, name in socket.if_nameindex()}
    wanted = {name.split(":")[0] for name in asked.split(",")}
    if not wanted & devices:  # a port of InfiniBand has another name than its interface
        devices |= {name.split("/")[1].split(":")[0] for name in _resources()} - {"memory"}
    if wanted & devices:
        return None
    expected = f"one of {', '.join(sorted(devices))}"
    return refused("PATALLREDUCE_SOCKET_IFNAME", expected, asked)


def _lack_of_files(ranks: int) -> str | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        left = limit - len(os.listdir("/proc/self/fd"))
    except OSError:
        left = 0
    more = 2 * ((environment.get_count("CONNECTIONS") or 1) - 1)
    needed = _FILES + ranks * (_FILES_PER_RANK + more)
    if left >= needed:
        return None
    return (
        f"expected at least {needed} more file descriptors for {ranks} ranks, got {left} of "
        f"{limit}: raise the limit (`ulimit -n`), or close files"
    )


def _free_bytes(folder: str) -> int:
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
