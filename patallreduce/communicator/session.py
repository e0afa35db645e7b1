"""What runs a communicator's collectives: one way, for the hook's buckets and for plain calls.

settle    the arguments become a call, the same on every rank
plan      where it may pay, its schedule is left to the plan of the loop's iteration
submit    to whom the tensor's memory belongs: the engine, or a GPU's streams
report    the loop is told the bucket, and with its last one when each was ready
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Sequence

import torch

from patallreduce import _core
from patallreduce.arguments import number, refused
from patallreduce.communicator import environment
from patallreduce.communicator.connections import Connections
from patallreduce.communicator.gpu_calls import GpuWork
from patallreduce.communicator.gpus import Gpus
from patallreduce.communicator.last_words import LastWords
from patallreduce.communicator.link_meter import LinkMeter
from patallreduce.communicator.loops import PLAIN, GpuLoop, Loop, Warner
from patallreduce.communicator.profile import bucket_range
from patallreduce.communicator.settler import Arguments, Settler
from patallreduce.communicator.tickets import Ticket
from patallreduce.communicator.work import Completer, Work
from patallreduce.decisions.rules import TuningFile
from patallreduce.pricing.link import Link

_log = logging.getLogger("patallreduce")

_DEFAULT_TIMEOUT_S = 300.0
_LONGEST_TIMEOUT_S = 1e9  # 30 years; clocks count nanoseconds
_DEFAULT_SCRATCH_BYTES = 512 * 1024 * 1024
_CLOSE_TIMEOUT_S = 5.0
_RECORDS_KEPT = 1024


class Session:
    """Engine, monitor and GPUs of one rank of a communicator, from `start` to `close`.

    Args:
        connections: To the other ranks.
        timeout_s: Deadline of collectives that have none of their own.
        link: Latency and bandwidth between ranks; None: measured when it is first needed.
        clock_skew_s: Seconds to add to this rank's clock in its progress reports.
        gpu_transport: As of `Communicator`.
        tuning: What was measured of such machines; None: nothing.
    """

    def __init__(
        self,
        connections: Connections,
        timeout_s: float,
        link: Link | None,
        *,
        clock_skew_s: float = 0.0,
        gpu_transport: str = "auto",
        tuning: TuningFile | None = None,
    ) -> None:
        self.transport = connections.transport
        self.timeout_s = timeout_s
        self._rendezvous = connections.rendezvous
        self.engine = _engine(connections)
        self.monitor: _core.Monitor | None = None
        self.plain: Loop | None = None  # of the collectives outside DDP; None without a monitor
        if connections.aside is not None:
            self.monitor = _core.Monitor(
                connections.aside,
                self.engine,
                clock_skew_s or environment.get_float("CLOCK_SKEW_S") or 0.0,
            )
            self._warner = Warner(self.monitor, self.engine)
            self.plain = Loop(self.monitor, self._warner, PLAIN)
        rank, ranks = self.transport.rank, self.transport.ranks
        self.nodes = list(connections.nodes)  # as of Communicator
        self.meter = LinkMeter(
            self.engine, rank, ranks, timeout_s, self.nodes, ports=not connections.share_memory
        )
        self.settler = Settler(
            self.engine,
            self.meter,
            rank,
            ranks,
            self.nodes,
            link=link,
            monitor=self.monitor,
            tuning=tuning,
        )
        self.tree_reducer = _core.TreeReducer(self.engine)
        self.gpus = Gpus(self.engine, connections.rendezvous, gpu_transport, timeout_s)
        self.records: deque[tuple[Ticket, _core.Call]] = deque(maxlen=_RECORDS_KEPT)
        self.process = os.getpid()
        self._completer = Completer(self.engine)
        self._last_words = LastWords(self.engine, rank, ranks, connections.name, self.records)
        self._models = 0
        # Also when it is collected, and at exit.
        self.close = weakref.finalize(
            self,
            _close,
            self.engine,
            self.gpus,
            self.monitor,
            self._completer,
            self._last_words,
            process=self.process,
        )

    def start(self) -> None:
        """Begin to answer the other ranks. All ranks' sessions start at once."""
        self._last_words.start()
        if (rendezvous := self._rendezvous) is None:
            self.engine.start(self.timeout_s)
        else:
            self.engine.start(rendezvous.left_s())
            rendezvous.met()  # each rank has greeted, so it has found all others
        if self.monitor is not None:
            self.monitor.start()

    def new_loop(self, device: torch.device | None = None) -> Loop | None:
        """A loop for one more model, None without a monitor. All ranks in the same order.

        Args:
            device: Of the model; None: the processor. Collective with the first model on a GPU.
        """
        gpu = None if device is None else self.gpus.of_model(device)
        if self.monitor is None:
            return None
        self._models += 1
        number = PLAIN + self._models
        if gpu is None:
            return Loop(self.monitor, self._warner, number)
        loop = GpuLoop(self.monitor, self._warner, number)
        gpu.follow(loop)
        return loop

    def settle(self, tensor: torch.Tensor, asked: Arguments) -> _core.Call:
        """Check what is asked and settle what it leaves open, without running it."""
        self.check_usable()
        return self.settler.settle(tensor, asked).call

    def run(
        self,
        tensor: torch.Tensor,
        asked: Arguments,
        *,
        loop: Loop | None = None,
        ends_iteration: bool = True,
        arrivals_s: Sequence[float] | None = None,
        timeout_s: float | None = None,
        caller_waits: bool = False,
    ) -> Work | GpuWork:
        """Settle, plan, start and report one collective.

        Args:
            tensor: Of this rank.
            asked: What is to be done with it.
            loop: The collective is one of its current iteration. That of the plain calls takes
                only those that are planned, none of a GPU's tensors.
            ends_iteration: Whether it is the iteration's last.
            arrivals_s: With the last: when each of the iteration was ready; None: when it was
                handed over.
            timeout_s: Deadline; None: the session's.
            caller_waits: The caller goes on to wait, and nobody else has to begin.
        """
        self.check_usable()
        call, may_plan = self.settler.settle(tensor, asked)
        limit_s = self.limit_s(timeout_s)
        ready_s = time.monotonic()
        planned = loop is not None and may_plan
        if loop is self.plain and not (planned and self.gpus.of(tensor.device) is None):
            loop = None
        to_run = call if loop is None or not planned else loop.plan(call, ready_s)
        span = None
        if asked.label >= 0 and torch.autograd.profiler._is_profiler_enabled:
            span = bucket_range(self.engine.algorithm_now(to_run), asked.label)
        work = self.submit(tensor, to_run, limit_s, caller_waits=caller_waits)
        if span is not None:
            work.future = span._call_end_callbacks_on_future(work.get_future())
        if loop is not None:
            loop.submitted(work.ticket, call, ready_s, first=asked.label == 0)
            if ends_iteration:
                loop.arrived(arrivals_s)
        return work

    def limit_s(self, timeout_s: float | None) -> float:
        """The deadline of one collective, as it was asked for; None: the session's."""
        if timeout_s is None:
            return self.timeout_s
        return checked_timeout(timeout_s, self.transport.rank)

    def submit(
        self,
        tensor: torch.Tensor,
        call: _core.Call,
        timeout_s: float | None = None,
        *,
        caller_waits: bool = False,
    ) -> Work | GpuWork:
        """Start a call that is settled; its future's value is `tensor`, or its error."""
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        work: Work | GpuWork
        if (gpu := self.gpus.of(tensor.device)) is not None:
            work = GpuWork(gpu.native, *gpu.submit(tensor, call, timeout_s), tensor)
        else:
            begin = self.engine.begin if caller_waits else self.engine.submit
            ticket = begin(tensor.data_ptr(), call, timeout_s)
            work = Work(self.engine, ticket, self._completer, tensor)
        self.records.append((work.ticket, call))
        return work

    def abort(self, why: str) -> None:
        """End all that is pending, on all ranks, with a TransportError that says why."""
        self.engine.abort(why)

    def check_usable(self) -> None:
        """Raise the TransportError it failed with, or that it is closed or a parent's."""
        self.engine.check()

    @property
    def usable(self) -> bool:
        """False once it is closed, failed, or seen from a forked child."""
        try:
            self.check_usable()
        except _core.TransportError:
            return False
        return True


def checked_timeout(timeout_s: float | None, rank: int | None = None) -> float:
    """Seconds > 0; of None PATALLREDUCE_TIMEOUT_S, or 300."""
    if timeout_s is None:
        return environment.get_seconds("TIMEOUT_S") or _DEFAULT_TIMEOUT_S
    limit_s = number("timeout_s", timeout_s, rank)
    if not 0 < limit_s <= _LONGEST_TIMEOUT_S:
        expected = f"seconds > 0 and <= {_LONGEST_TIMEOUT_S:g}"
        raise ValueError(refused("timeout_s", expected, timeout_s, rank))
    return limit_s


def _engine(connections: Connections) -> _core.Engine:
    # Spinning pays while every rank of this host has a core to itself.
    shares_cores = connections.local_ranks > len(os.sched_getaffinity(0))
    spin_s = environment.get_float("SPIN_S")
    if spin_s is None:
        spin_s = 20e-6 if shares_cores else 100e-6
    scratch_bytes = environment.get_count("SCRATCH_BYTES") or _DEFAULT_SCRATCH_BYTES
    return _core.Engine(connections.transport, spin_s, shares_cores, scratch_bytes)


def _close(
    engine: _core.Engine,
    gpus: Gpus,
    monitor: _core.Monitor | None,
    completer: Completer,
    last_words: LastWords,
    *,
    process: int,
) -> None:
    if process == os.getpid():
        last_words.say(over=False)
        gpus.close(_CLOSE_TIMEOUT_S)
        if (owed_s := engine.drain(_CLOSE_TIMEOUT_S)) > 0:  # what is pending may still need a plan
            _log.warning(
                "closing waits, for at most %.0f s, until the other ranks have their results",
                owed_s,
            )
        engine.close(_CLOSE_TIMEOUT_S)
        if monitor is not None:
            monitor.close(_CLOSE_TIMEOUT_S)
        last_words.say(over=True)
        completer.join()
