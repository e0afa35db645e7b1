"""The communicator: collectives among the ranks of a process group."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from patallreduce import _core
from patallreduce.communicator import environment, ucx
from patallreduce.communicator.calls import REPRODUCIBLE, Request, intended, left_open, settle
from patallreduce.communicator.collectives import Collectives
from patallreduce.communicator.given import GivenSchedules
from patallreduce.communicator.gpu_calls import GpuTicket, GpuWork
from patallreduce.communicator.gpus import TRANSPORTS, Gpus
from patallreduce.communicator.link_meter import LinkMeter
from patallreduce.communicator.loops import PLAIN, GpuStream, Stream, Warner
from patallreduce.communicator.rendezvous import Rendezvous
from patallreduce.communicator.tensors import check_tensor, dtype_of
from patallreduce.communicator.tree_sum import Values, tree_reduce
from patallreduce.communicator.work import Completer, Work
from patallreduce.pricing.link import Link
from patallreduce.pricing.selection import new_selector
from patallreduce.records.iterations import Iteration

_DEFAULT_TIMEOUT_S = 300.0
_DEFAULT_SCRATCH_BYTES = 512 * 1024 * 1024
_CLOSE_TIMEOUT_S = 5.0
_STATS_KEPT = 1024
_CALLS_KEPT = 1024
# A plan costs a few messages: it may pay where the message takes this long from rank to rank.
_WORTH_PLANNING_S = 2e-3


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
            straight over UCX with "ucx", where it knows CUDA memory. See GPU.md.
        timeout_s: Deadline of every collective, and of making the communicator; seconds, > 0.
        link: Latency and bandwidth between ranks; measured when it is first needed if not given.
            Must be equal on all ranks.
        monitor: Whether to predict arrivals: the progress monitor's thread and its own small
            connections. Must be equal on all ranks. None: PATALLREDUCE_MONITOR, or True.

    Raises:
        TransportTimeout: a rank did not come.
        TransportError: UCX is absent or too old.
        ValueError: a bad argument.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        transport: str = "auto",
        timeout_s: float | None = None,
        *,
        link: Link | None = None,
        monitor: bool | None = None,
    ) -> None:
        environment.warn_unknown()
        if transport == "auto":
            transport = environment.get("TRANSPORT") or "auto"
        if transport not in TRANSPORTS:
            raise ValueError(
                f"transport: expected one of {', '.join(TRANSPORTS)}, got {transport!r}; ranks as "
                "threads are made by Communicator.loopback"
            )
        timeout_s = _timeout(timeout_s)
        rendezvous = Rendezvous(process_group, timeout_s)
        token = int.from_bytes(rendezvous.from_rank_0("token", secrets.token_bytes(8)), "little")
        hosts = rendezvous.share_json("host", socket.gethostname() + "/" + _boot_id())
        native = _connect(rendezvous, "address", token)
        reads = rendezvous.share_json("reads", native.readable())
        native.set_direct([peer for peer in native.readable() if native.rank in reads[peer]])
        if monitor is None:
            monitor = environment.get_float("MONITOR") != 0
        aside = None
        if monitor and rendezvous.ranks > 1:
            aside = _connect(rendezvous, "monitor", token ^ 1)
        self._prepare(
            native,
            aside,
            timeout_s,
            link,
            local_ranks=hosts.count(hosts[rendezvous.rank]),
            rendezvous=rendezvous,
            gpu_transport=transport,
        )
        self._start()

    @classmethod
    def loopback(
        cls,
        ranks: int,
        timeout_s: float | None = None,
        *,
        link: Link | None = None,
        monitor: bool = True,
        clock_skews_s: Sequence[float] | None = None,
        monitor_delay_s: float = 0.0,
        monitor_seed: int = 0,
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
        """
        timeout_s = _timeout(timeout_s)
        hub, hub_aside = _core.LoopbackHub(ranks), _core.LoopbackHub(ranks)
        made: list[Communicator] = []
        for rank in range(ranks):
            communicator = cls.__new__(cls)
            link_of_memory = link or Link(20e-6, 2e9)
            aside: _core.Transport | None = None
            if monitor and ranks > 1:
                aside = _core.Loopback(hub_aside, rank)
                if monitor_delay_s > 0:
                    aside = _core.Delayed(aside, monitor_delay_s, monitor_seed)
            communicator._prepare(
                _core.Loopback(hub, rank),
                aside,
                timeout_s,
                link_of_memory,
                local_ranks=ranks,
                clock_skew_s=clock_skews_s[rank] if clock_skews_s else 0.0,
            )
            made.append(communicator)
        starts = [threading.Thread(target=c._start) for c in made]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        return made

    def _start(self) -> None:
        self._engine.start(self._timeout_s)
        if self._monitor is not None:
            self._monitor.start()

    def _prepare(
        self,
        native: _core.Transport,
        aside: _core.Transport | None,
        timeout_s: float,
        link: Link | None,
        *,
        local_ranks: int,
        clock_skew_s: float = 0.0,
        rendezvous: Rendezvous | None = None,
        gpu_transport: str = "auto",
    ) -> None:
        # Spinning pays while every rank of this host has a core to itself.
        shares_cores = local_ranks > len(os.sched_getaffinity(0))
        spin_s = environment.get_float("SPIN_S")
        if spin_s is None:
            spin_s = 20e-6 if shares_cores else 100e-6
        scratch_bytes = environment.get_float("SCRATCH_BYTES") or _DEFAULT_SCRATCH_BYTES
        self._engine = _core.Engine(native, spin_s, shares_cores, int(scratch_bytes))
        self._transport = native
        self._tree = _core.TreeReducer(self._engine)
        self._completer = Completer(self._engine)
        self._timeout_s = timeout_s
        self._link = link
        self._selector: _core.Selector | None = None
        self._monitor = None
        self._monitor_can_choose = False
        self._plain: Stream | None = None
        self._models = 0
        self._warned_of_flushing = False
        if aside is not None:
            self._monitor = _core.Monitor(
                aside, self._engine, clock_skew_s or environment.get_float("CLOCK_SKEW_S") or 0.0
            )
            self._warner = Warner(self._monitor, self._engine)
            self._plain = Stream(self._monitor, self._warner, PLAIN)
        self._process = os.getpid()
        self._calls: dict[tuple[Any, ...], _core.Call] = {}
        self._given = GivenSchedules(self._engine)
        self._link_meter = LinkMeter(self._engine, native.ranks, timeout_s)
        self._records: deque[dict[str, Any]] = deque(maxlen=_STATS_KEPT)
        self._gpus = Gpus(self._engine, rendezvous, gpu_transport, timeout_s)
        # Also when it is collected, and at exit.
        self._finalizer = weakref.finalize(
            self, _close, self._engine, self._gpus, self._monitor, self._completer, self._process
        )

    @property
    def rank(self) -> int:
        """This rank's number within the group."""
        return self._transport.rank

    @property
    def ranks(self) -> int:
        """How many ranks the group has."""
        return self._transport.ranks

    @property
    def transport(self) -> str:
        """Name of the transport: "ucx" or "loopback"."""
        return self._transport.name

    @property
    def link(self) -> Link:
        """Latency and bandwidth between ranks. Collective the first time, unless it was given."""
        if self._link is None:
            self._link = self._link_meter.measure(torch.float32)
        if self._monitor is not None and not self._monitor_can_choose:
            self._monitor_can_choose = True
            self._monitor.set_selector(
                new_selector(self.ranks, self._link), 1 / self._link.bytes_per_s
            )
        return self._link

    @property
    def selector(self) -> _core.Selector:
        """Prices the algorithms on this link. Collective the first time, as `link`."""
        if self._selector is None:
            self._selector = new_selector(self.ranks, self.link)
        return self._selector

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
        if not 0 <= fraction < 1:
            raise ValueError(f"fraction: expected a number within [0, 1), got {fraction}")
        self.check_usable()
        if self._plain is None:
            return
        if fraction == 0:
            self._plain.start(time.monotonic())
        else:
            self._plain.edge(fraction, time.monotonic())

    def new_stream(self, device: torch.device | None = None) -> Stream | None:
        """A stream for one more model, None without a monitor. All ranks in the same order.

        Args:
            device: Of the model; None: the processor. Collective with the first model on a GPU.
        """
        gpu = None if device is None else self._gpus.of(device)
        if self._monitor is None:
            return None
        self._models += 1
        number = PLAIN + self._models
        if gpu is None:
            return Stream(self._monitor, self._warner, number)
        stream = GpuStream(self._monitor, self._warner, number)
        gpu.follow(stream)
        return stream

    def worth_planning(self, message_bytes: int) -> bool:
        """Whether a plan may pay for a message of that size: the same on every rank."""
        return self._monitor is not None and self.link.transfer_s(message_bytes) >= (
            _WORTH_PLANNING_S
        )

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        algorithm: str = "auto",
        async_op: bool = False,
        *,
        segments: int | None = None,
        arrivals_s: Sequence[float] | None = None,
        segment_time_s: float | None = None,
        schedule: _core.Schedule | None = None,
        timeout_s: float | None = None,
    ) -> Work | GpuWork | None:
        """Combine `tensor` over all ranks, in place: every rank ends with the same bits.

        Every rank calls it with the same arguments; the tensors differ in values alone.

        Args:
            tensor: Contiguous CPU or CUDA tensor of any shape: float32, float64, float16, bfloat16,
                int32, int64 or uint8. On a GPU the collective comes behind what the current stream
                has queued so far, and what is queued there afterwards comes behind the result; the
                host waits only until every rank has called alike. Such calls are not predicted
                outside DDP.
            op: "sum", "avg", "min", "max" or "prod". float16 and bfloat16 convert to float32,
                combine and round back at every addition, as torch does element-wise; "avg"
                multiplies by 1 / ranks before summing, as DistributedDataParallel does. Integers
                wrap; their "avg" divides the sum, truncating. A sum or product that is a NaN is
                the quiet NaN without sign and payload; infinities, -0 and subnormals are as in
                IEEE 754, also where the caller's thread flushes subnormals to zero.
            algorithm: One of `algorithms()`, or "auto". "reproducible" gives the same bits whatever
                the transport, the segments, the arrivals and the timing: the sum of one fixed tree
                over the ranks. "auto" stands for it while
                `torch.are_deterministic_algorithms_enabled()`, and never takes it otherwise.
            async_op: Return a `Work` at once instead of waiting; for a CUDA tensor a `GpuWork`.
            segments: Into how many segments the message is cut, >= 1 and at most its elements.
                None: by `choose_segments`.
            arrivals_s: (ranks,) hints of when each rank arrives, seconds >= 0 on any common clock;
                a wrong hint costs time only.
            segment_time_s: prr's tau: seconds to transfer and reduce one part of the message.
                None: from the link.
            schedule: What to run, in place of algorithm, segments and hints: of
                `patallreduce.schedule`, or of your own steps by `Schedule.from_steps`; for
                all_reduce, and with at most as many segments as the tensor has elements. All ranks
                give the same steps. It is proved, as by `verify`, the first time that this
                communicator is given the object, before anything is sent: milliseconds up to some
                100,000 steps. A late rank begins before it comes, as with an algorithm's name,
                once it has run these steps before; the first time when it comes.
            timeout_s: Deadline of this collective; None: the communicator's.

        Returns:
            None, or a `Work` if `async_op`.

        Raises:
            TypeError, ValueError: this tensor or argument cannot be used.
            ScheduleError: unknown algorithm, bad segments or arrivals; a schedule that is wrong,
                or for another collective or number of ranks.
            MismatchError: ranks called with different arguments; both are named.
            PeerLostError: a rank died or left; it is named.
            TransportTimeout: the deadline passed; the rank that held it up is named.
        """
        call = self.call_for(
            tensor,
            op,
            algorithm,
            segments=segments,
            arrivals_s=arrivals_s,
            segment_time_s=segment_time_s,
            schedule=schedule,
        )
        stream = None
        is_open = schedule is None and left_open(algorithm, segments, arrivals_s)
        if is_open and self._gpus.of(tensor.device) is None and self.worth_planning(tensor.nbytes):
            stream = self._plain
        return self._run(tensor, call, timeout_s, async_op=async_op, stream=stream)

    def _run(
        self,
        tensor: torch.Tensor,
        call: _core.Call,
        timeout_s: float | None,
        *,
        async_op: bool,
        stream: Stream | None = None,
    ) -> Work | GpuWork | None:
        deadline_s = self._timeout_s if timeout_s is None else _timeout(timeout_s)
        if (gpu := self._gpus.of(tensor.device)) is not None:
            on_gpu, future = gpu.submit(tensor, call, deadline_s)
            self._record(on_gpu, call)
            work = GpuWork(gpu.native, on_gpu, future, tensor)
            if async_op:
                return work
            work.wait()
            return None
        if stream is not None:
            arrival_s = time.monotonic()
            call = stream.plan(call, arrival_s)
        if async_op:
            ticket, future = self._completer.submit(tensor, call, deadline_s)
        else:
            ticket = self._engine.begin(tensor.data_ptr(), call, deadline_s)
        self._record(ticket, call)
        if stream is not None:
            stream.submitted(ticket)
            stream.arrived([arrival_s], [call])
        if async_op:
            return Work(self._engine, ticket, future, tensor)
        self._engine.wait(ticket)
        return None

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
        op: str = "sum",
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
        self.check_usable()
        limit_s = self._timeout_s if timeout_s is None else _timeout(timeout_s)
        return tree_reduce(
            self._tree,
            values,
            op,
            distribution,
            rank=self.rank,
            ranks=self.ranks,
            timeout_s=limit_s,
        )

    def call_for(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        algorithm: str | None = None,
        *,
        segments: int | None = None,
        arrivals_s: Sequence[float] | None = None,
        segment_time_s: float | None = None,
        schedule: _core.Schedule | None = None,
        label: int = -1,
        collective: str = "all_reduce",
        root: int | None = None,
    ) -> _core.Call:
        """Check the arguments of a collective and settle what they leave open."""
        self.check_usable()
        check_tensor(tensor, self.rank)
        if schedule is None and collective == "all_reduce":
            algorithm = intended(algorithm or "auto")
        if algorithm == REPRODUCIBLE and not self._warned_of_flushing:
            self._warn_of_flushing()
        key = (
            tensor.numel(),
            tensor.dtype,
            op,
            algorithm,
            segments,
            None if arrivals_s is None else tuple(arrivals_s),
            segment_time_s,
            label,
            collective,
            root,
        )
        call = self._calls.get(key) if schedule is None else None
        if call is not None:
            return call
        request = Request(tensor.numel(), tensor.element_size(), dtype_of(tensor), *key[2:])
        if schedule is not None:
            return self._given.call(schedule, request, self.rank)
        if len(self._calls) >= _CALLS_KEPT:
            self._calls.clear()
        call = self._calls[key] = settle(
            request, self.rank, self.ranks, lambda: self.link, lambda: self.selector
        )
        return call

    def _warn_of_flushing(self) -> None:
        if _core.flushes_subnormals():
            self._warned_of_flushing = True
            warnings.warn(
                f"rank {self.rank}: this thread flushes subnormal numbers to zero "
                "(torch.set_flush_denormal(True)). The all-reduce keeps them, but what this rank "
                "computes itself can differ from ranks and runs that do not flush",
                RuntimeWarning,
                stacklevel=4,
            )

    def submit(
        self, tensor: torch.Tensor, call: _core.Call
    ) -> tuple[_core.Ticket | GpuTicket, torch.futures.Future[torch.Tensor]]:
        """Start a call made by `call_for`; the future's value is `tensor`, or its error."""
        started: tuple[_core.Ticket | GpuTicket, torch.futures.Future[torch.Tensor]]
        if (gpu := self._gpus.of(tensor.device)) is not None:
            started = gpu.submit(tensor, call, self._timeout_s)
        else:
            started = self._completer.submit(tensor, call, self._timeout_s)
        self._record(started[0], call)
        return started

    def algorithm_now(self, call: _core.Call) -> str:
        """What would run if a call of `call_for` came now; empty: its plan is not here yet."""
        return self._engine.algorithm_now(call)

    def abort(self, why: str) -> None:
        """End all that is pending, on all ranks, with a TransportError that says why."""
        self._engine.abort(why)

    def stats(self) -> list[dict[str, Any]]:
        """The last collectives of this rank, oldest first.

        Each a dict: number, call (text), schedule (what ran, text), planned (by prediction), place
        (of this rank in the order of arrival that slt_dynamic followed; -1 with others),
        arrival_s, finish_s and drained_s (time.monotonic(); 0 while pending), elapsed_s.
        """
        return [
            {
                "number": record["ticket"].seq,
                "call": str(record["call"]),
                "schedule": record["ticket"].key_text if record["ticket"].done else "",
                "planned": record["ticket"].done and record["ticket"].planned,
                "place": record["ticket"].place if record["ticket"].done else -1,
                "arrival_s": record["ticket"].arrival_s,
                "finish_s": record["ticket"].finish_s,
                "drained_s": record["ticket"].drained_s,
                "elapsed_s": record["ticket"].finish_s - record["ticket"].arrival_s,
            }
            for record in list(self._records)
        ]

    def iterations(self, stream: int = PLAIN) -> list[Iteration]:
        """The last iterations of a stream, oldest first; empty without a monitor.

        Rank 0 knows all ranks, the others only themselves.
        """
        if self._monitor is None:
            return []
        return [
            Iteration.from_dict(record)
            for record in self._monitor.records()
            if record["model"] == stream
        ]

    def close(self) -> None:
        """Finish what is sending, tell the other ranks, release everything. Idempotent."""
        self._finalizer()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self._process == os.getpid():
            self.abort(f"{type(error).__name__}: {error}")
        self.close()

    def _record(self, ticket: _core.Ticket | GpuTicket, call: _core.Call) -> None:
        self._records.append({"ticket": ticket, "call": call})

    @property
    def usable(self) -> bool:
        """False once it is closed, failed, or seen from a forked child."""
        try:
            self.check_usable()
        except _core.TransportError:
            return False
        return True

    def check_usable(self) -> None:
        """Raise the TransportError it failed with, or that it is closed or a parent's."""
        if self._process != os.getpid():
            raise _core.TransportError(
                f"this communicator was made by process {self._process} and cannot be used in its "
                f"forked child {os.getpid()}; make one there, or start workers with 'spawn'"
            )
        self._engine.check()

    def measure_link(self, dtype: torch.dtype = torch.float32) -> Link:
        """Measure the link anew, as :func:`patallreduce.calibrate` does. Collective.

        What `link` is stays as it is: it must not change while plans are made with it.
        """
        check_tensor(torch.zeros(1, dtype=dtype), self.rank)
        self.check_usable()
        return self._link_meter.measure(dtype, with_port_share=True)


def _connect(rendezvous: Rendezvous, name: str, token: int) -> _core.Ucx:
    native = _core.Ucx(
        ucx.library_path(),
        rendezvous.rank,
        rendezvous.ranks,
        token,
        environment.get("SOCKET_IFNAME") or "",
    )
    native.connect(rendezvous.share(name, native.address()))
    return native


def _close(
    engine: _core.Engine,
    gpus: Gpus,
    monitor: _core.Monitor | None,
    completer: Completer,
    process: int,
) -> None:
    if process == os.getpid():
        gpus.close(_CLOSE_TIMEOUT_S)
        engine.close(_CLOSE_TIMEOUT_S)  # what is pending may still need a plan
        if monitor is not None:
            monitor.close(_CLOSE_TIMEOUT_S)
        completer.join()


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _timeout(timeout_s: float | None) -> float:
    if timeout_s is None:
        timeout_s = environment.get_float("TIMEOUT_S") or _DEFAULT_TIMEOUT_S
    if not 0 < timeout_s < float("inf"):
        raise ValueError(f"timeout_s: expected seconds > 0, got {timeout_s}")
    return float(timeout_s)
