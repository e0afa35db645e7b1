"""What a rank of a cell does, and what it met: JSON in the cell's folder."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from benchmarks.lab.network import Network

from .cells import (
    AFTER,
    BEFORE,
    CLOSING,
    DURING,
    RANKS,
    SMALL,
    START,
    TRAINING,
    Cell,
    promise,
)
from .faults import Faults

LARGE = 4_000_000  # elements
LATE_S = 0.2
ITERATIONS = 12


class Rank:
    """One rank of a cell."""

    def __init__(self, cell: Cell, rank: int, folder: Path, network: Network | None) -> None:
        self.cell = cell
        self.rank = rank
        self.folder = folder
        self.network = network
        self.communicator: pat.Communicator | None = None
        self._is_victim = rank == cell.victim
        self._faults = Faults(self)
        self._began_s = self._ended_s = 0.0  # the call that fails

    def run(self) -> None:
        """Be it."""
        met: dict[str, object] = {"raised": ""}
        try:
            self._program()
        except BaseException as error:
            self._ended_s = self._ended_s or time.monotonic()
            met = {
                "raised": type(error).__name__,
                "named": getattr(error, "rank", None),
                "text": str(error),
                "completed": getattr(error, "completed", None),
            }
        met |= {"at_s": self._ended_s, "began_s": self._began_s, "closed_s": time.monotonic()}
        (self.folder / f"{self.rank}.json").write_text(json.dumps(met))

    def sum(self, elements: int, **differently: object) -> None:
        """A call that all ranks make."""
        assert self.communicator is not None
        tensor = torch.full((elements,), float(self.rank + 1))
        try:
            self.communicator.all_reduce(tensor, op="sum", **differently)  # type: ignore[arg-type]
        finally:
            self._ended_s = time.monotonic()
        assert tensor.eq(RANKS * (RANKS + 1) / 2).all(), "a wrong sum"

    def _program(self) -> None:
        dist.init_process_group(
            "gloo", init_method=f"file://{self.folder}/store", rank=self.rank, world_size=RANKS
        )
        dist.barrier()
        self._faults.spare_open_sockets()
        self._began_s = time.monotonic()
        self._at(START)
        if self.cell.moment == TRAINING:
            self._train()
            return
        # With a link given no collective is spent on measuring it.
        link, timeout_s = pat.Link(20e-6, 1e9), self.cell.timeout_s
        with pat.Communicator(timeout_s=timeout_s, link=link) as self.communicator:
            self.sum(SMALL)
            dist.barrier()
            self._second_call()
            self.sum(SMALL)
            self._at(AFTER)
            if self._is_victim and self.cell.moment == CLOSING:
                threading.Timer(0.002 * (1 + self.cell.victim), self._faults.happen).start()

    def _second_call(self) -> None:
        self._began_s = time.monotonic()
        if self.cell.late == ("victim" if self._is_victim else "other"):
            time.sleep(LATE_S)
        if self.cell.moment == DURING:
            if self._is_victim:
                threading.Timer(0.02, self._faults.happen).start()
            calls = 8  # on all ranks, if nothing goes wrong
            while calls > 0 or "" not in promise(self.cell).errors:
                self.sum(LARGE)
                calls -= 1
            return
        self._at(BEFORE)
        if self._is_victim and self.cell.fault == "leave":
            return
        self.sum(SMALL)

    def _train(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
        ddp_model = DistributedDataParallel(model, bucket_cap_mb=0.02)
        optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01)
        pat.register(ddp_model, timeout_s=self.cell.timeout_s)
        for iteration in range(ITERATIONS):
            self._began_s = time.monotonic()
            optimizer.zero_grad()
            loss = ddp_model(torch.ones(2, 64)).sum()
            if self._is_victim and iteration == ITERATIONS // 2 + self.cell.victim:
                self._train_with_fault()
            loss.backward()
            if self._is_victim and self.cell.fault == "raise_in_optimizer" and iteration == 7:
                self._faults.happen()
            optimizer.step()

    def _train_with_fault(self) -> None:
        if self.cell.fault in ("interrupt", "kill"):  # anywhere in the next iterations
            threading.Timer(0.003, self._faults.happen).start()
        elif self.cell.fault != "raise_in_optimizer":
            self._faults.happen()

    def _at(self, moment: str) -> None:
        if self._is_victim and self.cell.moment == moment:
            self._faults.happen()
