"""Asynchronous collectives: handles, futures, and the thread that completes them."""

from __future__ import annotations

import threading

import torch

from patallreduce import _core

_POLL_S = 0.5


class Completer:
    """Completes the futures of one engine from a thread of its own.

    The engine's thread never holds Python's lock; this one sleeps in native code until a
    collective is done, then takes it. Started by the first asynchronous collective.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._futures: dict[int, torch.futures.Future[_core.Ticket]] = {}
        self._thread: threading.Thread | None = None
        self._ending = False

    def submit(self, tensor: torch.Tensor, call: _core.Call, timeout_s: float) -> Work:
        """Start `call` on `tensor`, which is kept alive until it is done."""
        done: torch.futures.Future[_core.Ticket] = torch.futures.Future()

        def result(done: torch.futures.Future[_core.Ticket]) -> torch.Tensor:
            # The future's error is a RuntimeError that names the class of what is raised here;
            # DDP takes no future for failed that got Future.set_exception.
            done.value().check()
            return tensor

        future: torch.futures.Future[torch.Tensor] = done.then(result)
        with self._lock:  # the thread must find what the engine gives it
            ticket = self._engine.submit(tensor.data_ptr(), call, timeout_s)
            self._futures[ticket.seq] = done
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="patallreduce-completer", daemon=True
                )
                self._thread.start()
        return Work(self._engine, ticket, future, tensor)

    def join(self) -> None:
        """Complete what is left and end the thread; the engine is closed."""
        self._ending = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            ticket = self._engine.next_done(_POLL_S)
            if ticket is not None:
                with self._lock:
                    done = self._futures.pop(ticket.seq)
                done.set_result(ticket)
            elif self._ending:
                return


class Work:
    """An all-reduce under way, as torch.distributed's Work."""

    def __init__(
        self,
        engine: _core.Engine,
        ticket: _core.Ticket,
        future: torch.futures.Future[torch.Tensor] | None,
        tensor: torch.Tensor,
    ) -> None:
        self._engine = engine
        self.ticket = ticket
        self.future = future  # None: who started it waits at once
        self._tensor = tensor  # alive while the engine writes to it

    def wait(self) -> None:
        """Drive the transport from this thread until the result is in the tensor.

        Raises what `Communicator.all_reduce` raises.
        """
        self._engine.wait(self.ticket)

    def is_completed(self) -> bool:
        """Whether the result, or the error, is there."""
        return self.ticket.done

    def get_future(self) -> torch.futures.Future[torch.Tensor]:
        """A future of the tensor; its error is a RuntimeError that names what `wait` raises.

        Raises:
            TransportError: in a forked child, where nothing would ever complete it.
        """
        self._engine.check_process()
        assert self.future is not None
        return self.future
