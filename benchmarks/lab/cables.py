"""Cables that take their time, between network namespaces: for kernels without netem.

Each end is a TAP device; a program (cables.cpp) hands what one sends to the other, later. Packets
stay as large as the kernel makes them, so they cost little.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
from functools import cache
from pathlib import Path

from .closing import Closing
from .namespaces import entered

_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # linux/if_tun.h
_SIOCSIFTXQLEN = 0x8943  # linux/sockios.h
_TAP, _NO_INFORMATION, _SEGMENTED = 0x0002, 0x1000, 0x4000
_CHECKSUM, _TSO4, _TSO6 = 0x01, 0x02, 0x04

# Packets that a device keeps until the program takes them, which has to wait for a processor. By
# default 1000: what all ranks send to another site takes 15 ms to fill that. No wire loses it.
_QUEUED = 1 << 16


def new_tap(namespace: int, name: str) -> int:
    """Make a TAP device there; return the descriptor to which it lasts."""
    with entered(namespace):
        device = os.open("/dev/net/tun", os.O_RDWR)
        flags = _TAP | _NO_INFORMATION | _SEGMENTED
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", name.encode(), flags))
        fcntl.ioctl(device, _TUNSETOFFLOAD, _CHECKSUM | _TSO4 | _TSO6)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFTXQLEN, struct.pack("16si20x", name.encode(), _QUEUED))
    return device


class Cables(Closing):
    """Connects pairs of TAP devices; a context manager.

    Args:
        cables: the descriptors of both ends, which it takes over, and the seconds from one to the
            other.
    """

    def __init__(self, cables: list[tuple[int, int, float]]) -> None:
        self._devices = [end for one, other, _ in cables for end in (one, other)]
        arguments = [
            text
            for one, other, latency_s in cables
            for text in (str(one), str(other), str(round(latency_s * 1e9)))
        ]
        # It ends with this process, whose end of the pipe the kernel closes.
        self._program = subprocess.Popen(
            [_compiled(), *arguments], stdin=subprocess.PIPE, pass_fds=self._devices
        )
        self.pid = self._program.pid

    def close(self) -> None:
        """End them, and with them their devices; may be called again."""
        if self._program.stdin is not None:
            self._program.stdin.close()
        self._program.wait()
        while self._devices:
            os.close(self._devices.pop())


@cache
def _compiled() -> str:
    source = Path(__file__).with_suffix(".cpp")
    program = Path(__file__).parents[2] / "build" / "lab" / "cables"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CXX", "g++").split()
        command = [*compiler, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", str(source)]
        mine = program.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(mine)], check=True)
        mine.replace(program)
    return str(program)
