"""Collectives of one GPU's tensors: their works, their futures, and the thread that completes them.

    submit    behind what the current stream has queued so far; the host goes on
    settled   every rank has called alike: the future completes, with a stream current that waits
              for the result, as DistributedDataParallel expects
    finished  the result is there: the tensor is let go, arrivals and finishes are reported

Two native carriers do the work, behind one interface: `_core.NcclCarrier` and, over UCX,
`_core.StagedCarrier`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from patallreduce import _core
from patallreduce.communicator.loops import GpuLoop
from patallreduce.communicator.tickets import GpuTicket

# How soon a GPU's times are reported while something is under way, and looked for otherwise.
_BUSY_POLL_S = 0.005
_IDLE_POLL_S = 0.5


Carrier = Any  # one of the core's two ways to carry a GPU's data: alike but for their types


class GpuWork:
    """A collective of a GPU tensor under way, as torch.distributed's Work."""

    def __init__(
        self,
        native: Carrier,
        ticket: GpuTicket,
        future: torch.futures.Future[torch.Tensor],
        tensor: torch.Tensor,
    ) -> None:
        self._native = native
        self.ticket = ticket
        self.future = future
        self._tensor = tensor

    def wait(self) -> None:
        """Let the current stream go on behind the result.

        The host waits only until every rank has called alike, not for the result.

        Raises:
            What `Communicator.all_reduce` raises, and CudaError. A failure after this call shows in
            `synchronize` and in the next collective: the stream goes on with wrong data.
        """
        self._native.join(self.ticket.native, current_stream(self._tensor.device))

    def synchronize(self) -> None:
        """Wait on the host until the result is there; raises what the collective failed with."""
        self._native.wait(self.ticket.native)

    def is_completed(self) -> bool:
        """Whether the result is there; raises what the collective failed with."""
        return bool(self._native.has_result(self.ticket.native, 0.0))

    def get_future(self) -> torch.futures.Future[torch.Tensor]:
        """A future of the tensor: complete as `wait` is, for the stream that waits for it."""
        return self.future


class _Submitted(NamedTuple):
    ticket: GpuTicket
    settled: torch.futures.Future[torch.Tensor]
    future: torch.futures.Future[torch.Tensor]  # made of `settled`
    tensor: torch.Tensor
    met: list[Exception]  # what its future is to raise


class GpuCalls:
    """Collectives of tensors on one device, for one communicator.

    Args:
        native: What carries the data.
        device: Where the tensors are.
    """

    def __init__(self, native: Carrier, device: torch.device) -> None:
        self.native = native
        self.device = device
        self._lock = threading.Lock()
        self._submitted: deque[_Submitted] = deque()  # not settled
        self._held: list[_Submitted] = []  # not finished: their memory is in use
        self._loops: list[GpuLoop] = []
        self._thread: threading.Thread | None = None
        self._ending = False
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None

    def submit(
        self, tensor: torch.Tensor, call: _core.Call, timeout_s: float
    ) -> tuple[GpuTicket, torch.futures.Future[torch.Tensor]]:
        """Queue `call` on `tensor`, behind the current stream; keeps the tensor until the end."""
        on_gpu = self.device.type == "cuda"
        devices: list[int | str | torch.device] | None = [self.device] if on_gpu else None
        settled: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)
        with self._lock:
            native = self.native.submit(
                tensor.data_ptr(), call, current_stream(self.device), timeout_s
            )
            ticket = GpuTicket(native)

            met: list[Exception] = []

            def result(settled: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
                ticket.check()
                if met:
                    raise met[0]
                return settled.value()

            future = settled.then(result)
            self._submitted.append(_Submitted(ticket, settled, future, tensor, met))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="patallreduce-gpu", daemon=True
                )
                self._thread.start()
        return ticket, future

    def follow(self, loop: GpuLoop) -> None:
        """Let a loop report as soon as the GPU's times are known."""
        self._loops.append(loop)

    def close(self, timeout_s: float) -> None:
        """Drain, complete what is left and end the thread."""
        self.native.close(timeout_s)
        self._ending = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        if self._side is not None:  # else the thread would make a context of its own on GPU 0
            torch.cuda.set_device(self.device)
        while True:
            busy = self._held or any(loop.is_holding for loop in self._loops)
            native = self.native.next_done(_BUSY_POLL_S if busy else _IDLE_POLL_S)
            if native is not None:
                self._complete()
            elif self._ending:
                return
            # After a failure nobody knows what the GPU still does with a tensor: kept for good.
            self._held = [each for each in self._held if not each.ticket.done]
            for loop in self._loops:
                loop.flush()

    def _complete(self) -> None:
        with self._lock:
            entry = self._submitted.popleft()
        self._held.append(entry)
        try:
            with self._behind(entry):
                entry.settled.set_result(entry.tensor)
        except RuntimeError as error:
            # CUDA itself has failed: torch then leaves a future that nobody completes, and backward
            # would wait for it without end.
            if not entry.future.done():
                entry.future._set_unwrap_func(_raise)  # `then` gives no Future of Python's
                entry.future.set_result(error)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def _behind(self, entry: _Submitted) -> Iterator[None]:
        """With a stream current that waits for the result: a CUDA future notes where it is.

        What is met here is raised where the future's value is asked for: ranks may have called
        alike, and the streams failed since.
        """
        native = entry.ticket.native
        with contextlib.ExitStack() as current:
            if self._side is not None:
                current.enter_context(torch.cuda.stream(self._side))
            try:
                if self._side is not None:
                    self.native.join(native, self._side.cuda_stream)
                else:  # torch knows no streams of this device: the host waits
                    self.native.wait(native)
            except (_core.TransportError, _core.CudaError) as error:
                entry.met.append(error)
            yield


def _raise(error: Exception) -> None:
    raise error


def current_stream(device: torch.device) -> int:
    """Torch's current stream of a device, as the number the core takes; 0 where there is none."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.current_stream(device).cuda_stream)
