"""What a rank of a cell does, and what it met: JSON in the cell's folder."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import stat
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat

from .cells import (
    AFTER,
    BEFORE,
    CLOSING,
    DURING,
    HOLD_S,
    RANKS,
    START,
    STOP_S,
    TIMEOUT_S,
    TRAINING,
    Cell,
)

SMALL, LARGE = 10_000, 4_000_000  # elements
LATE_S = 0.2
ITERATIONS = 12
LIMIT_S = 25.0  # of a rank
_CLONE_NEWIPC = 0x08000000


class Rank:
    """One rank of a cell."""

    def __init__(self, cell: Cell, rank: int, folder: Path) -> None:
        self.cell = cell
        self.rank = rank
        self.folder = folder
        self.is_victim = rank == cell.victim
        self.communicator: pat.Communicator | None = None
        self.began_s = self.ended_s = 0.0  # the call that fails
        self.others_sockets: set[int] = set()  # not this library's

    def run(self) -> None:
        """Be it."""
        met: dict[str, object] = {"raised": ""}
        try:
            self._program()
        except BaseException as error:
            self.ended_s = self.ended_s or time.monotonic()
            met = {
                "raised": type(error).__name__,
                "named": getattr(error, "rank", None),
                "text": str(error),
                "completed": getattr(error, "completed", None),
            }
        met |= {"at_s": self.ended_s, "began_s": self.began_s, "closed_s": time.monotonic()}
        (self.folder / f"{self.rank}.json").write_text(json.dumps(met))

    def _program(self) -> None:
        if self.cell.transport == "mixed" and self.rank == RANKS - 1:
            _check(ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWIPC))
        dist.init_process_group(
            "gloo", init_method=f"file://{self.folder}/store", rank=self.rank, world_size=RANKS
        )
        dist.barrier()
        self.others_sockets = _sockets()
        self.began_s = time.monotonic()
        self._at(START)
        if self.cell.moment == TRAINING:
            self._train()
            return
        # With a link given no collective is spent on measuring it.
        with pat.Communicator(timeout_s=TIMEOUT_S, link=pat.Link(20e-6, 1e9)) as self.communicator:
            self._sum(SMALL)
            dist.barrier()
            self._second_call()
            self._sum(SMALL)
            self._at(AFTER)
            if self.is_victim and self.cell.moment == CLOSING:
                threading.Timer(0.002 * (1 + self.cell.victim), self._fault).start()

    def _second_call(self) -> None:
        self.began_s = time.monotonic()
        if self.cell.late == ("victim" if self.is_victim else "other"):
            time.sleep(LATE_S)
        if self.cell.moment == DURING:
            if self.is_victim:
                threading.Timer(0.02, self._fault).start()
            calls = 8  # on all ranks, if nothing goes wrong
            while calls > 0 or self._ends_it:
                self._sum(LARGE)
                calls -= 1
            return
        self._at(BEFORE)
        if self.is_victim and self.cell.fault == "leave":
            return
        self._sum(SMALL)

    @property
    def _ends_it(self) -> bool:
        return self.cell.fault not in ("none", "hold") and not (
            self.cell.fault == "cut" and self.cell.transport == "shm"
        )

    def _sum(self, elements: int, **differently: object) -> None:
        assert self.communicator is not None
        tensor = torch.full((elements,), float(self.rank + 1))
        try:
            self.communicator.all_reduce(tensor, op="sum", **differently)  # type: ignore[arg-type]
        finally:
            self.ended_s = time.monotonic()
        assert tensor.eq(RANKS * (RANKS + 1) / 2).all(), "a wrong sum"

    def _train(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
        ddp_model = DistributedDataParallel(model, bucket_cap_mb=0.02)
        optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01)
        pat.register(ddp_model, timeout_s=TIMEOUT_S)
        for iteration in range(ITERATIONS):
            self.began_s = time.monotonic()
            optimizer.zero_grad()
            loss = ddp_model(torch.ones(2, 64)).sum()
            if self.is_victim and iteration == ITERATIONS // 2 + self.cell.victim:
                self._train_with_fault()
            loss.backward()
            if self.is_victim and self.cell.fault == "raise_in_optimizer" and iteration == 7:
                self._fault()
            optimizer.step()

    def _train_with_fault(self) -> None:
        if self.cell.fault in ("interrupt", "kill"):  # anywhere in the next iterations
            threading.Timer(0.003, self._fault).start()
        elif self.cell.fault != "raise_in_optimizer":
            self._fault()

    def _at(self, moment: str) -> None:
        if self.is_victim and self.cell.moment == moment:
            self._fault()

    def _fault(self) -> None:
        (self.folder / "fault").write_text(str(time.monotonic()))
        getattr(self, f"_do_{self.cell.fault}", lambda: None)()

    def _do_kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _do_kill_with_child(self) -> None:
        if os.fork() == 0:
            time.sleep(LIMIT_S)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def _do_exit(self) -> None:
        os._exit(3)

    def _do_stop(self, for_s: float = STOP_S) -> None:
        stopped = os.getpid()
        if os.fork() == 0:
            time.sleep(for_s)
            os.kill(stopped, signal.SIGCONT)
            os._exit(0)
        os.kill(stopped, signal.SIGSTOP)

    def _do_hold(self) -> None:
        self._do_stop(HOLD_S)

    def _do_raise(self) -> None:
        raise ZeroDivisionError("of its own")

    _do_raise_in_optimizer = _do_raise

    def _do_interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def _do_cut(self) -> None:
        for socket_fd in _sockets() - self.others_sockets:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(socket_fd)) as one:
                one.shutdown(socket.SHUT_RDWR)

    def _do_no_descriptors(self) -> None:
        used = {int(name) for name in os.listdir("/proc/self/fd")}
        free = [number for number in range(2 * len(used) + 100) if number not in used]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[20], free[20]))

    def _do_shape(self) -> None:
        self._sum(SMALL + 1)

    def _do_dtype(self) -> None:
        assert self.communicator is not None
        self.communicator.all_reduce(torch.ones(SMALL, dtype=torch.float64))

    def _do_op(self) -> None:
        assert self.communicator is not None
        self.communicator.all_reduce(torch.ones(SMALL), op="max")

    def _do_algorithm(self) -> None:
        self._sum(SMALL, algorithm="slt_dynamic")

    def _do_segments(self) -> None:
        self._sum(SMALL, algorithm="ring", segments=7)

    def _do_collective(self) -> None:
        assert self.communicator is not None
        self.communicator.reduce(torch.ones(SMALL), root=0)


def _sockets() -> set[int]:
    sockets = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                sockets.add(int(name))
    return sockets


def _check(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), "unshare")
