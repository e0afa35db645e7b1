"""What a rank of a soak does, and what it tells in the end: JSON in the soak's folder."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import time
import traceback
from collections import Counter
from collections.abc import MutableSequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import torch
import torch.distributed as dist

import patallreduce as pat
from tests.tree_sum.reference import bits, elements, tree

from .calls import Call
from .steps import Opening, Script, Step, is_power_of_two
from .training import TIMEOUT_S, come_late, train

LATE, LATE_S = 0.1, 0.02  # how probably before a step, and by how much at most
ASK_EVERY = 5  # steps; then rank 0 says whether to go on
NOT_BEGUN = -100  # and more, step after step, until step 0


class Rank:
    """One rank of a soak.

    Args:
        rank: This one.
        script: Where the soak begins.
        seed: Of the soak.
        seconds: How long to go on.
        reached: By rank, the step in which each is, at first `NOT_BEGUN`: memory that all share.
    """

    def __init__(
        self, rank: int, script: Script, seed: int, seconds: float, reached: MutableSequence[int]
    ) -> None:
        self.rank = rank
        self._script = script
        self._seed = seed
        self._seconds = seconds
        self._reached = reached
        self._groups: list[dist.ProcessGroup | None] = []
        self._slots: list[pat.Communicator | None] = []
        self._counts: Counter[str] = Counter()
        self._step: Step | None = None

    def run(self, store: dist.Store, folder: Path) -> bool:
        """Be it, and tell; whether all was well."""
        told: dict[str, object] = {}
        try:
            self._go_on(store, told)
        except BaseException as error:
            told |= {
                "error": traceback.format_exc(),
                "wrong": isinstance(error, AssertionError),
                "at_s": time.monotonic(),
                "step": f"step {self._reached[self.rank]}, {self._step and self._step.kind}",
            }
        told["counts"] = dict(self._counts)
        (folder / f"{self.rank}.new").write_text(json.dumps(told))
        (folder / f"{self.rank}.new").rename(folder / f"{self.rank}.json")
        return "error" not in told

    def _go_on(self, store: dist.Store, told: dict[str, object]) -> None:
        ranks = len(self._reached)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=ranks)
        for members in self._script.groups:
            group = dist.new_group(members)
            self._groups.append(group if self.rank in members else None)  # type: ignore[arg-type]
        self._warm_up()
        told["start"] = self._holds()
        self._slots = [self._open(opening) for opening in self._script.openings]
        until_s = time.monotonic() + self._seconds
        while self._goes_on(until_s):
            for _ in range(ASK_EVERY):
                self._do(self._script.next())
        for communicator in self._slots:
            if communicator is not None:
                communicator.close()
        self._slots.clear()
        told["end"] = self._holds()

    def _warm_up(self) -> None:
        """What stays once it was used is there before descriptors are counted."""
        for number, group in enumerate(self._groups):
            self._reached[self.rank] += 1
            if group is not None:
                rounds = 3 if is_power_of_two(dist.get_world_size(group)) else 0
                step = Step(0, "train", 0, opening=Opening(number, None, True), rounds=rounds)
                train(step, group, random.Random(0))

    def _holds(self) -> dict[str, int]:
        gc.collect()
        dist.barrier()
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threads(os.getpid()),
            "MiB in use": round(heap_bytes() / (1 << 20)),
        }

    def _open(self, opening: Opening) -> pat.Communicator | None:
        group = self._groups[opening.group]
        if group is None:
            return None
        self._counts["communicators"] += dist.get_rank(group) == 0
        return pat.Communicator(
            group, timeout_s=TIMEOUT_S, link=opening.link, monitor=opening.monitor
        )

    def _goes_on(self, until_s: float) -> bool:
        communicator = self._slots[0]
        assert communicator is not None
        answer = torch.tensor([int(time.monotonic() < until_s)])
        communicator.broadcast(answer, 0)
        return bool(answer)

    def _do(self, step: Step) -> None:
        self._step = step
        self._reached[self.rank] = step.number
        own = random.Random(f"{self._seed}/{step.number}/{self.rank}")
        if own.random() < LATE:
            time.sleep(own.uniform(0, LATE_S))
        if step.kind == "train":
            group = self._groups[step.opening.group]
            if group is not None:
                planned = train(step, group, own)
                if dist.get_rank(group) == 0:
                    self._counts += Counter({"iterations": step.rounds, "planned": planned})
        elif step.kind in ("call", "at_once"):
            self._calls(step, own)
        elif step.kind == "renew":
            self._renew(step, own)
        elif (communicator := self._slots[step.slot]) is not None:
            getattr(self, f"_do_{step.kind}")(step, communicator, own)

    def _calls(self, step: Step, own: random.Random) -> None:
        at_once = step.kind == "at_once"
        calls = []
        for case in step.cases:
            communicator = self._slots[case.slot]
            if communicator is not None:
                calls.append(Call(case, communicator))
                calls[-1].start(async_op=at_once)
                self._count(communicator, calls[-1].kind)
        own.shuffle(calls)
        for call in calls:
            call.finish(by_future=own.random() < 0.5)

    def _count(self, communicator: pat.Communicator, kind: str) -> None:
        self._counts[kind] += communicator.rank == 0

    def _do_barrier(self, step: Step, communicator: pat.Communicator, _: random.Random) -> None:
        communicator.barrier(step.algorithm)
        group = self._groups[self._script.openings[step.slot].group]
        come = [self._reached[rank] for rank in dist.get_process_group_ranks(group)]
        assert min(come) >= step.number, f"left a barrier while ranks are in steps {come}"
        self._count(communicator, f"barrier {step.algorithm or 'usual'}")

    def _do_tree_sum(self, step: Step, communicator: pat.Communicator, _: random.Random) -> None:
        choose = random.Random(step.seed)
        count = int(2 ** choose.uniform(0, 16))
        values = elements(count, choose.choice([torch.float32, torch.float64]), step.seed)
        cuts = sorted(choose.randint(0, count) for _ in range(communicator.ranks - 1))
        part = values[slice(*([0, *cuts, count][communicator.rank :][:2]))]
        op = choose.choice(["sum", "min", "max"])
        result = communicator.tree_reduce(part, op)
        wanted = tree(values, op)
        assert torch.equal(bits(result), bits(wanted)), f"tree_{op}: {result}, not {wanted}"
        self._count(communicator, f"tree_reduce {op}")

    def _do_loop(self, step: Step, communicator: pat.Communicator, own: random.Random) -> None:
        for number in range(step.rounds):
            for fraction in (0.0, 0.4, 0.8):
                communicator.edge(fraction)
                come_late(replace(step, late_s=step.late_s / 3), communicator.rank, own)
            call = Call(replace(step.cases[0], seed=step.seed + number), communicator)
            call.start(async_op=False)
            call.finish(by_future=False)
            self._count(communicator, call.kind)
        planned = sum(record["planned"] for record in communicator.stats()[-step.rounds :])
        if communicator.rank == 0:
            self._counts["planned"] += planned

    def _renew(self, step: Step, own: random.Random) -> None:
        communicator = self._slots[step.slot]
        if communicator is not None and own.random() < 0.8:
            communicator.close()
        communicator = self._slots[step.slot] = None  # closes what nothing holds any more
        self._slots[step.slot] = self._open(step.opening)


class _Mallinfo2(ctypes.Structure):
    """Of mallinfo(3)."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_: ClassVar = [(name, ctypes.c_size_t) for name in names.split()]


def heap_bytes() -> int:
    """What is allocated in this process; the heap itself may be larger, and have holes."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    told = mallinfo2()
    return int(told.uordblks + told.hblkhd)


def threads(pid: int) -> int:
    """How many a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))
