"""Emulated hosts for tests of what starts ranks on several: nothing outlives the test's process.

    with Hosts(folder, ["node1", "node2"]) as hosts:
        print(hosts.run(0, "ping", "-c1", "node2", limit_s=10))

Each has its own network namespace behind an emulated switch, where its device is eth0, its own
name, processes, shared memory, and an /etc/hosts with all names. What a command starts there ends
with the command, whoever became its parent.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO

from benchmarks.lab.closing import Closing
from benchmarks.lab.namespaces import available, die_with_parent, enter_for_good, entered
from benchmarks.lab.network import Network, address, device_name

RATE_BIT_S = 1e9
INTERFACE = "eth0"
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
UNSHARED = ["--mount", "--mount-proc", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
# There is no name service that would know a host by its address, as c10d wants to.
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}


def lacking(*programs: str) -> str:
    """Why there can be none here, with these programs on them; empty: there can."""
    needed = (*programs, "unshare", "ip")
    if absent := [program for program in needed if shutil.which(program, path=PATH) is None]:
        return f"no {', '.join(absent)}"
    if available().how != "root":
        return f"needs root: {available().reason or 'hosts have names'}"
    return ""


class Hosts(Closing):
    """Some hosts, by their numbers from 0 on; a context manager."""

    def __init__(self, folder: Path, names: Sequence[str], aliases: Sequence[str] = ()) -> None:
        self.names = list(names)
        self._table = folder / "hosts"
        called = zip_longest(names, aliases, fillvalue="")
        known = [f"{address(host)} {' '.join(both)}\n" for host, both in enumerate(called)]
        self._table.write_text("".join(["127.0.0.1 localhost\n", *known]))
        self._network = Network(len(names), RATE_BIT_S)
        for host, namespace in enumerate(self._network.namespaces):
            device = device_name(host)
            rename = f"ip link set {device} down name {INTERFACE}; ip link set {INTERFACE} up"
            with entered(namespace):
                subprocess.run(["sh", "-ec", rename], env={"PATH": PATH}, check=True)

    def close(self) -> None:
        """Drop the network; commands that run have been ended by who started them."""
        self._network.close()

    def run(
        self, host: int, *command: str, limit_s: float, variables: Mapping[str, str] | None = None
    ) -> str:
        """What a command says there; an error if it fails, or takes longer."""
        process = self.start(host, *command, output=subprocess.PIPE, variables=variables)
        try:
            said, _ = process.communicate(timeout=limit_s)
        finally:
            end(process)
        assert process.returncode == 0, f"{shlex.join(command)}: {said}"
        return said

    def start(
        self,
        host: int,
        *command: str,
        output: int | IO[str],
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command there, in the folder of the hosts; `end` it."""
        become = [
            f"hostname {shlex.quote(self.names[host])}",
            f"mount --bind {shlex.quote(str(self._table))} /etc/hosts",
            "mount -t tmpfs none /dev/shm",
            shlex.join(command),
        ]
        parent = os.getpid()

        def prepare() -> None:
            die_with_parent(parent)
            enter_for_good(self._network.namespaces[host])

        return subprocess.Popen(
            ["unshare", *UNSHARED, "sh", "-ec", "\n".join(become)],
            cwd=self._table.parent,
            env={**os.environ, **QUIET, "PATH": PATH, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=prepare,  # noqa: PLW1509 -- as in benchmarks.lab.launch
        )


def end(process: subprocess.Popen[str]) -> None:
    """End a command, if it has not ended, and all that it started."""
    process.kill()
    process.communicate()
