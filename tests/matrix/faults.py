"""What each fault does, in the rank that has it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import stat
import threading
import time
from typing import TYPE_CHECKING

import torch

from .cells import BRIEF_S, HOLD_S, LIMIT_S, SMALL, STOP_S
from .hosts import RATE_BIT_S

if TYPE_CHECKING:
    from .ranks import Rank

_SHM_LEFT_BYTES = 64 << 10  # enough to begin with, too little to end with
THROTTLED_BIT_S = RATE_BIT_S / 100


class Faults:
    """Those of a rank: `do_` and the fault's name; what has no such method happens elsewhere."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._others_sockets: set[int] = set()

    def spare_open_sockets(self) -> None:
        """`cut` is to leave those alone that are open now: they are not this library's."""
        self._others_sockets = _sockets()

    def happen(self) -> None:
        """Have the one of this cell."""
        (self._rank.folder / "fault").write_text(str(time.monotonic()))
        getattr(self, f"do_{self._rank.cell.fault}", lambda: None)()

    def do_kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_kill_with_child(self) -> None:
        if os.fork() == 0:
            time.sleep(LIMIT_S)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def do_exit(self) -> None:
        os._exit(3)

    def do_stop(self, for_s: float = STOP_S) -> None:
        stopped = os.getpid()
        if os.fork() == 0:
            time.sleep(for_s)
            os.kill(stopped, signal.SIGCONT)
            os._exit(0)
        os.kill(stopped, signal.SIGSTOP)

    def do_hold(self) -> None:
        self.do_stop(HOLD_S)

    def do_raise(self) -> None:
        raise ZeroDivisionError("of its own")

    do_raise_in_optimizer = do_raise

    def do_interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def do_cut(self) -> None:
        for socket_fd in _sockets() - self._others_sockets:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(socket_fd)) as one:
                one.shutdown(socket.SHUT_RDWR)

    def do_unplug(self) -> None:
        assert self._rank.network
        self._rank.network.unplug(self._rank.rank)

    def do_unplug_briefly(self) -> None:
        assert self._rank.network
        self.do_unplug()
        threading.Timer(BRIEF_S, self._rank.network.plug_in, [self._rank.rank]).start()

    def do_throttle(self, rate_bit_s: float = THROTTLED_BIT_S) -> None:
        assert self._rank.network
        self._rank.network.set_rate(self._rank.rank, rate_bit_s)

    def do_throttle_briefly(self) -> None:
        self.do_throttle()
        threading.Timer(BRIEF_S, self.do_throttle, [RATE_BIT_S]).start()

    def do_no_descriptors(self) -> None:
        used = {int(name) for name in os.listdir("/proc/self/fd")}
        free = [number for number in range(2 * len(used) + 100) if number not in used]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[20], free[20]))

    def do_shm_full(self) -> None:
        with open("/dev/shm/full", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        os.truncate("/dev/shm/full", os.stat("/dev/shm/full").st_size - _SHM_LEFT_BYTES)

    def do_shape(self) -> None:
        self._rank.sum(SMALL + 1)

    def do_dtype(self) -> None:
        assert self._rank.communicator
        self._rank.communicator.all_reduce(torch.ones(SMALL, dtype=torch.float64))

    def do_op(self) -> None:
        assert self._rank.communicator
        self._rank.communicator.all_reduce(torch.ones(SMALL), op="max")

    def do_algorithm(self) -> None:
        self._rank.sum(SMALL, algorithm="slt_dynamic")

    def do_segments(self) -> None:
        self._rank.sum(SMALL, algorithm="ring", segments=7)

    def do_collective(self) -> None:
        assert self._rank.communicator
        self._rank.communicator.reduce(torch.ones(SMALL), root=0)


def _sockets() -> set[int]:
    sockets = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                sockets.add(int(name))
    return sockets
