"""Forked children let go of their parent's connections.

A connection stands until the last process that has it open is gone. A child, such as a worker of a
DataLoader, inherits its parent's: should the parent be killed, ranks on other hosts would learn of
it only when the child ends, too. So a child closes them as soon as it is forked.

They are UCX's, which does not tell which they are. But one end of each is where a rank listens, and
ranks tell each other their ports.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import stat
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from patallreduce._core import Transport

# Of each communicator: where its ranks listen, this one included.
_ports: weakref.WeakKeyDictionary[Transport, set[int]] = weakref.WeakKeyDictionary()


def listening() -> set[int]:
    """The ports of TCP at which this process listens."""
    return {
        port
        for _, end in _sockets()
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        and (port := _port(end.getsockname)) is not None
    }


def let_go(transport: Transport, ports: set[int]) -> None:
    """While `transport` lives, forked children close what they inherit to and from these ports."""
    _ports[transport] = ports
    if ports:
        _register()


@functools.cache
def _register() -> None:
    os.register_at_fork(after_in_child=_close)


def _close() -> None:
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ports = set().union(*_ports.values())
    for number, end in _sockets():
        if _port(end.getsockname) in ports or _port(end.getpeername) in ports:
            os.dup2(nothing, number, inheritable=False)  # the number stays taken: UCX knows it
    os.close(nothing)


def _sockets() -> Iterator[tuple[int, socket.socket]]:
    """This process's sockets of TCP, by number."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # such as the one that listed them
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as end:
                if (
                    end.family in (socket.AF_INET, socket.AF_INET6)
                    and end.type == socket.SOCK_STREAM
                ):
                    yield int(name), end


def _port(name_of: Callable[[], Any]) -> int | None:
    """The port of what `socket.getsockname` or `getpeername` gives."""
    with contextlib.suppress(OSError):  # not connected
        return int(name_of()[1])
    return None
