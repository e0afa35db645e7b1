"""All-reduce of GPU tensors: our schedules over NCCL, queued on streams; the host goes on.

    own NCCL communicator, made through a store
    all_reduce(tensor)   behind what the current stream has queued so far
    work.wait()          the current stream goes on behind the result

The native side is csrc/streams: a schedule in groups of sends and receives on one stream, its sums
on another one, events between them. So ranks must queue the same collectives in the same order.
"""

from __future__ import annotations

import datetime
import importlib.util
from collections import OrderedDict, deque
from collections.abc import Sequence
from pathlib import Path

import torch
from torch._C._distributed_c10d import Store

from patallreduce import _core, cuda, schedules
from patallreduce.tensors import dtype_of

_PROGRAMS_KEPT = 256
_CLOSE_TIMEOUT_S = 5.0

ProgramKey = tuple[str, int, tuple[float, ...], bool]


def nccl_path() -> str:
    """NCCL's library: the one torch has loaded, else the wheel's, else what the loader finds."""
    with Path("/proc/self/maps").open(encoding="ascii", errors="replace") as maps:
        for line in maps:
            if "/libnccl.so" in line:
                return line.split(maxsplit=5)[5].rstrip()
    try:
        wheel = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        wheel = None
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        library = Path(folder) / "lib" / "libnccl.so.2"
        if library.exists():
            return str(library)
    return "libnccl.so.2"


class StreamWork:
    """A collective that is queued."""

    def __init__(
        self, executor: _core.StreamExecutor, ticket: _core.StreamTicket, tensor: torch.Tensor
    ) -> None:
        self._executor = executor
        self._ticket = ticket
        self._tensor = tensor

    def wait(self) -> None:
        """Let the current stream go on behind the result; the host does not wait.

        Raises:
            TransportError, CudaError: the communicator has failed. A failure after this call shows
                in `synchronize` and in the next collective; the stream goes on with wrong data.
        """
        self._executor.join(self._ticket, current_stream(self._tensor.device))

    def synchronize(self) -> None:
        """Wait on the host until the result is there; raises what the collective failed with."""
        self._executor.wait(self._ticket)

    def is_completed(self) -> bool:
        """Whether the result is there; raises what the collective failed with."""
        return self._executor.has_result(self._ticket, 0.0)


class StreamCommunicator:
    """Collectives among ranks that have a GPU each, over an NCCL communicator of its own.

    Making one is itself collective. A rank that does not come ends everything on the others at the
    deadline; the communicator is dead afterwards.

    Args:
        store: Of torch.distributed, seen by all ranks; `name` must be new in it.
        rank, ranks: This rank and how many there are.
        device: Where tensors are, with index.
        name: The same on all ranks.
        timeout_s: Deadline of every collective from its call on, and of making the communicator.
        kernels, nccl: Paths of the libraries; None: our own kernels, and `nccl_path()`.

    Raises:
        CudaError: there are no kernels, no driver or no such device.
        TransportError: there is no NCCL, or not all ranks came.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        ranks: int,
        device: torch.device,
        *,
        name: str = "patallreduce",
        timeout_s: float = 300.0,
        kernels: str | None = None,
        nccl: str | None = None,
    ) -> None:
        self.rank = rank
        self.ranks = ranks
        self.device = device
        self._timeout_s = timeout_s
        self._programs: OrderedDict[ProgramKey, _core.StreamProgram] = OrderedDict()
        self._queued: deque[StreamWork] = deque()  # keeps their tensors
        kernels = cuda.library_path() if kernels is None else kernels
        nccl = nccl_path() if nccl is None else nccl
        key = f"{name}/nccl"
        if rank == 0:
            unique_id = _core.nccl_unique_id(nccl)
            store.set(key, unique_id.hex())
        else:
            store.wait([key], datetime.timedelta(seconds=timeout_s))
            unique_id = bytes.fromhex(store.get(key).decode())
        self._executor = _core.StreamExecutor(
            kernels, nccl, device.index or 0, rank, ranks, unique_id, timeout_s
        )
        self._executor.connect(timeout_s)

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        algorithm: str = "ring",
        *,
        segments: int | None = None,
        arrivals_s: Sequence[float] | None = None,
        timeout_s: float | None = None,
    ) -> StreamWork:
        """Queue the combination of `tensor` over all ranks, in place, behind the current stream.

        Every rank calls it with the same arguments; the tensors differ in values alone. Nobody
        compares: ranks that differ end at the deadline, or with wrong sums.

        Args:
            tensor: Contiguous, on the communicator's device, of a dtype of the reductions.
            op: "sum", "avg", "min", "max" or "prod", as in `Communicator.all_reduce`.
            algorithm: One of `algorithms()`.
            segments: Into how many segments the message is cut; None: one per rank.
            arrivals_s: (ranks,) when each rank arrives, seconds on one clock. With it a rank has
                its result while it still sends (early out), for a copy of what is sent.
            timeout_s: Deadline; None: the communicator's.

        Returns:
            A work to wait for.

        Raises:
            TypeError, ValueError: this tensor cannot be used, or its stream records a CUDA graph.
            ScheduleError: unknown algorithm, bad segments or arrivals.
            TransportError, CudaError: the communicator has failed, now or before.
        """
        self._check(tensor)
        scales = op == "avg" and tensor.is_floating_point()
        program = self._program(algorithm, segments or self.ranks, arrivals_s, scales=scales)
        ticket = self._executor.submit(
            program,
            tensor.data_ptr(),
            tensor.numel(),
            dtype_of(tensor).name,
            op,
            current_stream(self.device),
            self._timeout_s if timeout_s is None else timeout_s,
        )
        work = StreamWork(self._executor, ticket, tensor)
        self._queued.append(work)
        while self._queued[0].is_completed():
            self._queued.popleft()
            if not self._queued:
                break
        return work

    def close(self) -> None:
        """Drain and release everything. Idempotent."""
        self._executor.close(_CLOSE_TIMEOUT_S)
        self._queued.clear()

    def _check(self, tensor: torch.Tensor) -> None:
        where = f"on rank {self.rank}"
        if tensor.device != self.device:
            raise TypeError(f"expected a tensor on {self.device}, got {tensor.device} {where}")
        if not tensor.is_contiguous():
            raise ValueError(f"expected a contiguous tensor, got strides {tensor.stride()} {where}")
        if tensor.dtype not in {getattr(torch, name) for name in _core.Dtype.__members__}:
            known = ", ".join(_core.Dtype.__members__)
            raise TypeError(f"expected a dtype of {known}, got {tensor.dtype} {where}")

    def _program(
        self, algorithm: str, segments: int, arrivals_s: Sequence[float] | None, *, scales: bool
    ) -> _core.StreamProgram:
        key = (algorithm, segments, tuple(arrivals_s or ()), scales)
        if key not in self._programs:
            schedule = schedules.schedule(algorithm, self.ranks, segments, arrivals_s)
            early_out = arrivals_s is not None
            self._programs[key] = _core.StreamProgram(
                schedule, self.rank, early_out=early_out, scales=scales
            )
            while len(self._programs) > _PROGRAMS_KEPT:
                self._programs.popitem(last=False)
        self._programs.move_to_end(key)
        return self._programs[key]


def current_stream(device: torch.device) -> int:
    """Torch's current stream of a device, as the number the core takes; 0 where there is none."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.current_stream(device).cuda_stream)
