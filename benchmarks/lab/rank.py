"""The ranks' side of a benchmark: what they agree on, check and write. The driver's is plan.py."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from patallreduce.ending import end_rank

from .measures import Sample
from .plan import Plan, Record, starts_file
from .point_to_point import PointToPoint
from .rivals import Rival, make_rivals

# A prime: equal values in misplaced segments of any usual size would go unnoticed.
PATTERN = 4093
START_AHEAD_S = 0.05  # for every rank to read the start time: the store looks each 10 ms
SPIN_S = 0.0005  # before the start, where every rank has a core: sleep is 0.1 ms inexact
POINT_TO_POINT_PORT = 1  # added to MASTER_PORT


class Bench:
    """The ranks' agreement on starts and samples, over a group that no rival uses.

    Starts are agreed through a file: over an emulated network it takes several latencies, in which
    the rivals' connections rest for so long that TCP begins slowly again.
    """

    def __init__(self, plan: Plan) -> None:
        self.control = dist.new_group(backend="gloo")
        self._store = FileStore(starts_file(plan), dist.get_world_size())
        self._starts = 0
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self.spin_s = SPIN_S if self.ranks <= (os.cpu_count() or 1) else 0.0

    def values(self, elements: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Make one rank's values and the sum over all: whole numbers that float32 adds exactly.

        Every rank and index of a period has its own value, so a wrong or misplaced contribution
        shows. Below 2^24 for up to 88 ranks.
        """
        index = torch.arange(elements, dtype=torch.float64) % PATTERN
        expected = index * self.ranks + PATTERN * (self.ranks * (self.ranks - 1) // 2)
        return (index + PATTERN * self.rank).float(), expected.float()

    def sample(self, rival: Rival, buckets: list[torch.Tensor], arrivals_s: list[float]) -> Sample:
        """Time one call per bucket, all ranks starting at the times asked for."""
        return self.gather(*self.call(rival, buckets, arrivals_s), calls=len(buckets))

    def call(
        self,
        rival: Rival,
        buckets: list[torch.Tensor],
        arrivals_s: list[float],
        ahead_s: float = START_AHEAD_S,
    ) -> tuple[float, float]:
        """Call once per bucket, `ahead_s` after all are ready; this rank's arrival and finish."""
        start_s = self.agree_on_start(ahead_s) + arrivals_s[self.rank]
        time.sleep(max(0.0, start_s - self.spin_s - time.monotonic()))
        while time.monotonic() < start_s:
            pass
        arrival_s = time.monotonic()
        for bucket in buckets:
            rival.all_reduce(bucket, arrivals_s)
        return arrival_s, time.monotonic()

    def gather(self, arrival_s: float, finish_s: float, calls: int = 1) -> Sample:
        """Put all ranks' times together."""
        times_s = torch.tensor([arrival_s, finish_s], dtype=torch.float64)
        gathered = [torch.empty_like(times_s) for _ in range(self.ranks)]
        dist.all_gather(gathered, times_s, group=self.control)
        return Sample(
            arrivals_s=[float(times[0]) for times in gathered],
            finishes_s=[float(times[1]) for times in gathered],
            calls=calls,
        )

    def agree_on_start(self, ahead_s: float = START_AHEAD_S) -> float:
        """Return a time so far ahead of the last rank that asks, the same on every rank."""
        self._starts += 1
        key = f"start {self._starts}"
        if self._store.add("asked", 1) == self._starts * self.ranks:
            self._store.set(key, repr(time.monotonic() + ahead_s))
        return float(self._store.get(key))


def check(rival: Rival, buckets: list[torch.Tensor], expected: torch.Tensor) -> None:
    """Compare every element of every result with the exact sum."""
    for call, bucket in enumerate(buckets):
        if not torch.equal(bucket, expected):
            wrong = torch.nonzero(bucket != expected).flatten()
            first = int(wrong[0])
            raise AssertionError(
                f"{rival.name}, rank {dist.get_rank()}, call {call}: {len(wrong)} of "
                f"{len(bucket)} elements wrong, first at {first}: expected "
                f"{expected[first]}, got {bucket[first]}"
            )


def start_rank() -> int:
    """Join the other ranks in torch.distributed; return this one's number."""
    # Under mpirun ranks that share a host also share its environment.
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ["RANK"]))
    os.environ["RANK"] = str(rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return rank


def yardstick(plan: Plan, stack: ExitStack) -> PointToPoint | None:
    """Connect rank 0 and the first one that does not share its port, to time M*beta between them.

    None elsewhere and without a network.
    """
    rank, other = dist.get_rank(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if plan["shared_memory"] or dist.get_world_size() <= other or rank not in (0, other):
        return None
    port = int(os.environ["MASTER_PORT"]) + POINT_TO_POINT_PORT
    host = os.environ["MASTER_ADDR"]
    return stack.enter_context(PointToPoint(sends=rank == 0, host=host, port=port))


def keep(plan: Plan, records: Iterable[Record], said: Callable[[Record], str | None]) -> None:
    """Go through the records, which measures them; rank 0 writes each, and says it in a line."""
    first = dist.get_rank() == 0
    with open(plan["results"] if first else os.devnull, "a", encoding="utf-8") as results:
        for record in records:
            results.write(json.dumps(record) + "\n")
            results.flush()
            if first and (line := said(record)) is not None:
                print(line, flush=True)


def run_rivals(
    measure: Callable[[Plan, Bench, list[Rival], PointToPoint | None], Iterator[Record]],
    said: Callable[[Record], str],
) -> NoReturn:
    """Be one rank of a benchmark of rivals: run its part of the plan on the command line, and end.

    Rank 0 also times M*beta and writes the results.
    """
    plan = json.loads(sys.argv[1])
    start_rank()
    with ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        bench = Bench(plan)
        rivals = make_rivals(plan["algorithms"], shared_memory=plan["shared_memory"])
        for rival in rivals:
            stack.callback(rival.close)
        pair = yardstick(plan, stack)
        keep(plan, measure(plan, bench, rivals, pair), said)
    end_rank()
