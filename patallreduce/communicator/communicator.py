"""The communicator: collectives among the ranks of a process group."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from patallreduce.arguments import flag, number, numbers, refused, whole
from patallreduce.communicator import environment
from patallreduce.communicator.calls import Op
from patallreduce.communicator.collectives import Collectives
from patallreduce.communicator.connections import of_processes, of_threads
from patallreduce.communicator.loops import PLAIN
from patallreduce.communicator.rendezvous import mistakes_told
from patallreduce.communicator.session import Session, checked_timeout
from patallreduce.communicator.settings import checked_link, checked_transport, settings_here
from patallreduce.communicator.tree_sum import Values, tree_reduce
from patallreduce.communicator.tuned import tuning_here
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network
from patallreduce.records.iterations import Iteration


class Communicator(Collectives):
    """All-reduce among the ranks of a process group, over connections of its own.

    Making one is itself collective: every rank of the group makes it, in the same order. A rank
    that fails or does not come ends the collective on every rank with the same error, by the
    deadline; the communicator is dead afterwards, and a new one must be made.

    Args:
        process_group: Any group of torch.distributed, None for the default one. Only its store is
            used, to exchange addresses.
        transport: "auto" or "ucx" (shared memory and TCP) for CPU tensors. CUDA tensors go over
            NCCL with "auto" and "nccl", through pinned host memory over UCX with "staged", and
            straight over UCX with "ucx", where it knows CUDA memory. See docs/gpu.md. Must be
            equal on all ranks.
        timeout_s: Deadline of every collective, and of making the communicator; seconds, > 0.
        link: Latency and bandwidth between ranks, or the network that
            :func:`patallreduce.calibrate` gave; measured when it is first needed if not given.
            Must be equal on all ranks.
        monitor: Whether to predict arrivals: the progress monitor's thread and its own small
            connections. Must be equal on all ranks. None: PATALLREDUCE_MONITOR, or True.

    Raises:
        TransportTimeout: a rank did not come.
        TransportError: UCX is absent or too old.
        MismatchError: a rank was given other settings, or runs another release.
        TypeError, ValueError: a bad argument, or variable of the environment.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        transport: str = "auto",
        timeout_s: float | None = None,
        *,
        link: Link | Network | None = None,
        monitor: bool | None = None,
    ) -> None:
        with mistakes_told(process_group):
            environment.warn_unknown()
            environment.check()
            rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else None
            transport = checked_transport(transport, rank)
            timeout_s = checked_timeout(timeout_s, rank)
            if monitor is None:
                monitor = environment.get_flag("MONITOR") is not False
            flag("monitor", monitor, rank)
            known = checked_link(link, rank)
            tuning = tuning_here("ucx", rank)
            settings = settings_here(transport, monitor=monitor, link=known, tuning=tuning)
        connections = of_processes(process_group, timeout_s, settings, monitor=monitor)
        super().__init__(
            Session(connections, timeout_s, known, gpu_transport=transport, tuning=tuning)
        )
        self.session.start()

    @classmethod
    def loopback(
        cls,
        ranks: int,
        timeout_s: float | None = None,
        *,
        link: Link | Network | None = None,
        monitor: bool = True,
        clock_skews_s: Sequence[float] | None = None,
        monitor_delay_s: float = 0.0,
        monitor_seed: int = 0,
        nodes: Sequence[int] = (),
    ) -> list[Communicator]:
        """Communicators of `ranks` ranks within this process: use each from a thread of its own.

        For tests and experiments; needs no network and no torch.distributed.

        Args:
            ranks: P >= 1.
            timeout_s: As of the constructor, like link and monitor.
            link: None: one as of memory.
            monitor: Whether to predict arrivals.
            clock_skews_s: (P,) seconds to add to each rank's clock in its progress reports.
            monitor_delay_s: The longest that a message between monitors is held up; how long each
                is, is drawn from `monitor_seed`.
            monitor_seed: See there.
            nodes: (P,) the node of each rank, as if ranks of one node shared a port; (): no two do.
        """
        ranks = whole("ranks", ranks)
        timeout_s = checked_timeout(timeout_s)
        flag("monitor", monitor)
        known = checked_link(link) or Link(20e-6, 2e9)
        if ranks < 1:
            raise ValueError(refused("ranks", "at least 1", ranks))
        skews_s = numbers("clock_skews_s", clock_skews_s or [0.0] * ranks)
        if len(skews_s) != ranks:
            raise ValueError(refused("clock_skews_s", f"{ranks}, one per rank", skews_s))
        environment.check()
        tuning = tuning_here("loopback", None)
        connections = of_threads(
            ranks,
            monitor=monitor,
            monitor_delay_s=monitor_delay_s,
            monitor_seed=monitor_seed,
            nodes=nodes,
        )
        made = [
            Session(of_rank, timeout_s, known, clock_skew_s=skew_s, tuning=tuning)
            for of_rank, skew_s in zip(connections, skews_s, strict=True)
        ]
        starts = [threading.Thread(target=session.start) for session in made]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        return [cls._of(session) for session in made]

    @classmethod
    def _of(cls, session: Session) -> Communicator:
        communicator = cls.__new__(cls)
        Collectives.__init__(communicator, session)
        return communicator

    @property
    def transport(self) -> str:
        """The transport's name, "ucx" or "loopback"."""
        return self.session.transport.name

    @property
    def link(self) -> Link:
        """Latency and bandwidth between ranks, of different nodes where ranks share any.

        Collective the first time, unless it was given.
        """
        return self.session.settler.link

    @property
    def nodes(self) -> list[int]:
        """The node of each rank. Those of one share a host, and its port to the others.

        Empty where no two ranks do, or all do, or PATALLREDUCE_NODES=0 has it so.
        """
        return list(self.session.nodes)

    def edge(self, fraction: float) -> None:
        """Report progress towards the next all-reduce, in a loop that is not DDP's.

        Call it any number of times between two calls of `all_reduce(..., algorithm="auto")`. It
        makes the prediction better and never changes a result; a missing or wrong one costs time
        only. DDP's layers report by themselves once a model is registered.

        Args:
            fraction: Part of the computation that is done, 0 <= fraction < 1. 0 says that it begins
                now; else it is taken to have begun when the last result came, which is wrong where
                a loop then waits, or does what says nothing about its computation.

        Source: PAP18, section 5 (the monitor's edge).

        Raises:
            ValueError: not within [0, 1).
            TransportError: the communicator is closed or failed.
        """
        if not 0 <= number("fraction", fraction, self.rank) < 1:
            raise ValueError(refused("fraction", "a number within [0, 1)", fraction, self.rank))
        self.session.check_usable()
        loop = self.session.plain
        if loop is None:
            return
        if fraction == 0:
            loop.start(time.monotonic())
        else:
            loop.edge(fraction, time.monotonic())

    def tree_sum(
        self,
        values: Values,
        *,
        distribution: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> torch.Tensor:
        """The sum of N elements spread over the ranks: the same bits on any number of ranks.

        `tree_reduce` with op="sum".
        """
        return self.tree_reduce(values, "sum", distribution=distribution, timeout_s=timeout_s)

    def tree_reduce(
        self,
        values: Values,
        op: Op = "sum",
        *,
        distribution: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> torch.Tensor:
        """Reduce N elements spread over the ranks to one: the same bits on any number of ranks.

        Every rank calls it with its own consecutive elements, in rank order; how many each has is
        free, none included, and may change from call to call. Elements are combined by one fixed
        binary tree over 0 ... N - 1, whoever holds them: the result depends on the elements alone,
        not on the number of ranks, the distribution, the transport, the timing, the processor's
        vector code or the thread's flush-to-zero mode. Subnormals are kept, and a result that is
        not a number is the positive quiet NaN without payload.

        A call takes one small message exchange, or two where a rank's count is not that of the
        call before. `patallreduce.distributions` has distributions that make it small.

        Args:
            values: (n,) or (n, k) float32 or float64, a CPU tensor or anything numpy takes for an
                array of that kind; not changed. Not contiguous: copied first. k, small, is equal on
                all ranks; elements are then combined column by column.
            op: "sum", "min", "max" or "prod", as of `all_reduce`.
            distribution: (ranks,) what n should be on each rank, to be checked on all of them; the
                same on all ranks. None: whatever the ranks give.
            timeout_s: Deadline of this collective; None: the communicator's.

        Returns:
            () or (k,) tensor of the dtype of `values`, the same on every rank. With N = 0 the
            neutral value: 0 for sum, 1 for prod, infinity for min, -infinity for max.

        Raises:
            TypeError, ValueError: these values or this argument cannot be used, here or on another
                rank, which is named; or the distribution does not add up to what the ranks gave.
                Every rank raises, and the communicator stays usable.
            MismatchError: ranks called with different op, dtype, k or distribution; likewise.
            PeerLostError, TransportTimeout: as `all_reduce`.

        Source: BTR22 (Stelz 2022), equations 2.1-2.3.
        """
        self.session.check_usable()
        return tree_reduce(
            self.session.tree_reducer,
            values,
            op,
            distribution,
            rank=self.rank,
            ranks=self.ranks,
            timeout_s=self.session.limit_s(timeout_s),
        )

    def stats(self) -> list[dict[str, Any]]:
        """The last collectives of this rank, oldest first.

        Each a dict: number, call (text), schedule (what ran, text), planned (by prediction), place
        (of this rank in the order of arrival that slt_dynamic followed; -1 with others),
        arrival_s, finish_s and drained_s (time.monotonic(); 0 while pending), elapsed_s.
        """
        return [
            {
                "number": ticket.seq,
                "call": str(call),
                "schedule": ticket.key_text if ticket.done else "",
                "planned": ticket.done and ticket.planned,
                "place": ticket.place if ticket.done else -1,
                "arrival_s": ticket.arrival_s,
                "finish_s": ticket.finish_s,
                "drained_s": ticket.drained_s,
                "elapsed_s": ticket.finish_s - ticket.arrival_s,
            }
            for ticket, call in list(self.session.records)
        ]

    def iterations(self, loop: int = PLAIN, newest: int = 1024) -> list[Iteration]:
        """The last iterations of a loop that any rank began, oldest first; [] without a monitor.

        Rank 0 knows all ranks, the others only themselves.

        Args:
            loop: Of a model, from 1; 0: of the collectives outside DDP.
            newest: No more than so many; more than 1,024 are not kept.
        """
        monitor = self.session.monitor
        # The plan of one that has not begun may have come.
        records = [] if monitor is None else monitor.records(loop, newest + 1)
        begun = [one for one in map(Iteration.from_dict, records) if one.begun]
        return begun[max(len(begun) - newest, 0) :]

    @property
    def usable(self) -> bool:
        """False once it is closed, failed, or seen from a forked child."""
        return self.session.usable

    def close(self) -> None:
        """Finish what is sending, tell the other ranks, release everything. Idempotent."""
        self.session.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self.session.process == os.getpid():
            self.session.abort(f"{type(error).__name__}: {error}")
        self.close()
