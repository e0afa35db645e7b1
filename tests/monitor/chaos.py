"""Chaos: iterations in which everything around the plans goes wrong; the sums must not.

Computation times are random and a late rank moves about. Edges are missing, late, doubled or
wildly wrong, and so are starts and reported arrivals. Clocks differ by seconds, messages between
monitors come late, bucket sizes change, and several iterations of two models and of plain calls are
in flight. Every sum is compared with the exact one, and the schedule that ran with the other
ranks'.

    python -m tests.monitor.chaos --ranks 2 4 8 --iterations 500   # a JSON line per number of ranks
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from patallreduce import Communicator, Link, _core
from patallreduce.communicator import connections
from patallreduce.communicator.loops import Loop
from patallreduce.communicator.settler import Arguments
from tests.threads import each_rank

# Slow, so that a few thousand elements are worth a plan; less than _SMALLEST are not.
LINK = Link(50e-6, 2e6)
# A plan may be so much slower than none: there always is one.
_ANY = -100.0
_SMALLEST, _LARGEST = 100, 12000
_MODELS = 2
_TIMEOUT_S = 60.0
_LONGEST_S = 600.0  # of 10,000 iterations


@dataclass(frozen=True)
class Weather:
    """How bad it is; equal on all ranks."""

    iterations: int
    seed: int = 0
    compute_s: float = 2e-3  # mean
    late_s: float = 10e-3  # of the late rank, more
    wrong: float = 0.2  # share of reports that are
    delay_s: float = 0.2  # longest of a message between monitors
    skew_s: float = 5.0  # clocks differ by so much
    monitors_end: bool = False  # one after the other, at last the leader's


@dataclass(frozen=True)
class Ran:
    """A collective as one rank saw it."""

    loop: int
    iteration: int
    bucket: int
    elements: int
    schedule: str
    planned: bool


class ChaoticRank:
    """One rank's loop. Shared choices come from `both`, its own from `own`."""

    def __init__(self, communicator: Communicator, weather: Weather) -> None:
        self._communicator = communicator
        self._weather = weather
        assert communicator.link == LINK
        monitor = communicator.session.monitor
        if monitor is not None:
            planner = _core.Planner(communicator.ranks, LINK, _ANY)
            monitor.set_planner(planner, 1 / LINK.bytes_per_s, guarded=False)
        self._both = random.Random(weather.seed)
        self._own = random.Random(weather.seed * 1009 + communicator.rank + 1)
        self._models = [communicator.session.new_loop() for _ in range(_MODELS)]
        self._sizes = [self._new_sizes() for _ in range(_MODELS)]
        self._flying: deque[list[tuple[Any, _core.Ticket, torch.Tensor, torch.Tensor]]] = deque()
        self._late_rank = 0
        self._plain_calls = 0
        self.ran: list[Ran] = []
        self._names: deque[list[tuple[int, int, int]]] = deque()

    def run(self) -> list[Ran]:
        """All iterations; raises AssertionError for a wrong sum."""
        for iteration in range(self._weather.iterations):
            if iteration % 20 == 0:
                self._late_rank = self._both.randrange(self._communicator.ranks)
            if self._weather.monitors_end:
                self._end_monitor(iteration)
            which = self._both.randrange(_MODELS + 1)
            if which == _MODELS:
                self._plain_iteration(iteration)
            else:
                self._model_iteration(iteration, which)
            in_flight = self._both.choice([0, 1, 3, 8])
            while len(self._flying) > in_flight:
                self._settle()
        while self._flying:
            self._settle()
        return self.ran

    def _end_monitor(self, iteration: int) -> None:
        ranks, monitor = self._communicator.ranks, self._communicator.session.monitor
        order = (self._communicator.rank - 1) % ranks  # the leader is the last
        if monitor is not None and iteration == self._weather.iterations * (order + 1) // (
            ranks + 1
        ):
            monitor.fail("in the chaos")

    def _new_sizes(self) -> list[int]:
        return [
            self._both.randint(_SMALLEST, _LARGEST) for _ in range(self._both.choice([1, 2, 3, 5]))
        ]

    def _model_iteration(self, iteration: int, which: int) -> None:
        session, loop = self._communicator.session, self._models[which]
        assert loop is not None
        if self._both.random() < 0.05:  # DDP rebuilt its buckets
            self._sizes[which] = self._new_sizes()
        self._compute(loop)
        flying, names, arrivals_s = [], [], []
        for bucket, elements in enumerate(self._sizes[which]):
            tensor, expected = self._tensors(elements, iteration + bucket)
            asked = Arguments("sum", "auto", label=bucket)
            call, may_plan = session.settler.settle(tensor, asked)
            arrivals_s.append(time.monotonic())
            planned = call
            if may_plan:
                planned = loop.plan(call, self._wrong(arrivals_s[-1]))
            work = session.submit(tensor, planned)
            loop.submitted(work.ticket, call, arrivals_s[-1])
            flying.append((work.get_future(), work.ticket, tensor, expected))
            names.append((loop.number, loop.iteration, bucket))
        if self._own.random() < self._weather.wrong:
            arrivals_s = [self._wrong(at_s) for at_s in arrivals_s]
            self._tell_few(loop, self._own.randint(1, len(flying)), arrivals_s)
        else:
            loop.arrived(arrivals_s)
        self._flying.append(flying)
        self._names.append(names)

    @staticmethod
    def _tell_few(loop: Loop, told: int, arrivals_s: list[float]) -> None:
        """End the iteration with a report of its first `told` buckets only."""
        report = loop._report_arrivals
        loop._report_arrivals = (
            lambda times_s, calls: report(  # type: ignore[method-assign]
                times_s, calls[:told]
            )
        )
        loop.arrived(arrivals_s)
        del loop._report_arrivals

    def _plain_iteration(self, iteration: int) -> None:
        time.sleep(self._compute_s())
        if self._own.random() < 0.5:
            self._communicator.edge(self._own.uniform(0.01, 0.99))
        elements = self._both.randint(_SMALLEST, _LARGEST)
        tensor, expected = self._tensors(elements, iteration)
        work = self._communicator.all_reduce(tensor, async_op=True)
        assert work is not None
        self._flying.append([(work, work.ticket, tensor, expected)])
        self._names.append([(0, self._plain_calls, 0)])
        self._plain_calls += 1

    def _compute_s(self) -> float:
        compute_s = self._own.expovariate(1 / self._weather.compute_s)
        if self._communicator.rank == self._late_rank:
            compute_s += self._weather.late_s
        return compute_s

    def _compute(self, loop: Loop) -> None:
        compute_s = self._compute_s()
        if self._own.random() > self._weather.wrong:
            loop.start(self._wrong(time.monotonic()))
        fractions = sorted(self._own.sample([0.1, 0.25, 0.5, 0.75, 0.9], self._own.randint(0, 5)))
        done = 0.0
        for fraction in fractions:
            time.sleep((fraction - done) * compute_s)
            done = told = fraction
            if self._own.random() < self._weather.wrong:
                told = self._own.choice([-1.0, 0.0, 1.0, 7.0, math.nan, self._own.random()])
            for _ in range(1 + (self._own.random() < self._weather.wrong)):
                loop.edge(told, self._wrong(time.monotonic()))
        time.sleep((1 - done) * compute_s)

    def _wrong(self, at_s: float) -> float:
        if self._own.random() > self._weather.wrong:
            return at_s
        return self._own.choice(
            [at_s - 3600, at_s + 3600, at_s - 0.05, at_s + 0.05, 0.0, -1e9, 1e300, math.nan]
        )

    def _tensors(self, elements: int, salt: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Small integers: every order of adding them gives the same bits."""
        pattern = torch.arange(salt, salt + elements, dtype=torch.float32).remainder_(97)
        ranks = self._communicator.ranks
        return pattern * (self._communicator.rank + 1), pattern * (ranks * (ranks + 1) // 2)

    def _settle(self) -> None:
        flying, names = self._flying.popleft(), self._names.popleft()
        for (pending, ticket, tensor, expected), name in zip(flying, names, strict=True):
            pending.wait()
            assert torch.equal(tensor, expected), f"wrong sum of {name}, {ticket.key_text}"
            self.ran.append(Ran(*name, tensor.numel(), ticket.key_text, ticket.planned))


def same_schedules(ran: list[list[Ran]]) -> None:
    """Raise AssertionError unless all ranks ran the same, call by call."""
    for rank, others in enumerate(ran):
        assert len(others) == len(ran[0])
        for mine, first in zip(others, ran[0], strict=True):
            a, b = asdict(mine), asdict(first)
            # A rank that heard a schedule from another cannot tell whether it was planned.
            a.pop("planned"), b.pop("planned")
            assert a == b, f"rank {rank} ran {a}, rank 0 {b}"


def figures(ran: list[list[Ran]], weather: Weather, wall_s: float) -> dict[str, Any]:
    """What a run came to; `planned` is a share of all calls."""
    calls = ran[0]
    return {
        "ranks": len(ran),
        "iterations": weather.iterations,
        "calls": len(calls),
        "planned": sum(any(r[i].planned for r in ran) for i in range(len(calls))) / len(calls),
        "schedules": len({call.schedule for call in calls}),
        "algorithms": sorted({call.schedule.split()[0] for call in calls}),
        "delay_s": weather.delay_s,
        "skew_s": weather.skew_s,
        "wall_s": round(wall_s, 1),
    }


def run_loopback(ranks: int, weather: Weather) -> dict[str, Any]:
    """Ranks as threads: figures, after every sum and every schedule was checked."""
    skew = random.Random(weather.seed)
    communicators = Communicator.loopback(
        ranks,
        _TIMEOUT_S,
        link=LINK,
        clock_skews_s=[skew.uniform(-1, 1) * weather.skew_s for _ in range(ranks)],
        monitor_delay_s=weather.delay_s,
        monitor_seed=weather.seed,
    )
    start_s = time.monotonic()
    try:
        chaotic = [ChaoticRank(communicator, weather) for communicator in communicators]
        ran = each_rank(ranks, lambda rank: chaotic[rank].run(), _LONGEST_S)
    finally:
        for communicator in communicators:
            communicator.close()
    same_schedules(ran)
    return figures(ran, weather, time.monotonic() - start_s)


def run_on_this_rank(weather: Weather) -> list[Ran]:
    """The same among processes, over UCX; for every rank of the default group."""
    rank = dist.get_rank()
    os.environ["PATALLREDUCE_CLOCK_SKEW_S"] = str(rank * weather.skew_s)
    connect = connections._connect

    def connect_late(rendezvous: Any, name: str, *others: Any) -> Any:
        native, unreached = connect(rendezvous, name, *others)
        if name == "monitor":
            native = _core.Delayed(native, weather.delay_s, weather.seed)
        return native, unreached

    connections._connect = connect_late  # type: ignore[assignment]
    try:
        with Communicator(timeout_s=_TIMEOUT_S, link=LINK) as communicator:
            return ChaoticRank(communicator, weather).run()
    finally:
        connections._connect = connect
        del os.environ["PATALLREDUCE_CLOCK_SKEW_S"]


def main() -> None:
    """Print the figures of a run per number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 5, 6, 7, 8])
    parser.add_argument("--iterations", type=int, default=200, help="of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay-s", type=float, default=0.2)
    options = parser.parse_args()
    for ranks in options.ranks:
        weather = Weather(options.iterations, options.seed + ranks, delay_s=options.delay_s)
        print(json.dumps(run_loopback(ranks, weather)), flush=True)


if __name__ == "__main__":
    main()
