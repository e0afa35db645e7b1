"""Asynchronous collectives: handles, futures, and the thread that completes them."""

from __future__ import annotations

import contextlib
import threading

import torch

from patallreduce import _core

_POLL_S = 0.5


class Completer:
    """Completes the futures of one engine from a thread of its own.

    The engine's thread never holds Python's lock; this one sleeps in native code until a
    collective is done, then takes it. Started with the first future that is asked for.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        # Reentrant: where it is held, a work may be collected that asks for its future.
        self.lock = threading.RLock()
        self._futures: dict[int, torch.futures.Future[_core.Ticket]] = {}
        self._thread: threading.Thread | None = None
        self._ending = False

    def future(
        self, ticket: _core.Ticket, tensor: torch.Tensor
    ) -> torch.futures.Future[torch.Tensor]:
        """A future of the tensor, which is kept alive until the ticket is done. Once for each."""
        done: torch.futures.Future[_core.Ticket] = torch.futures.Future()

        def result(done: torch.futures.Future[_core.Ticket]) -> torch.Tensor:
            # The future's error is a RuntimeError that names the class of what is raised here;
            # DDP takes no future for failed that got Future.set_exception.
            done.value().check()
            return tensor

        future: torch.futures.Future[torch.Tensor] = done.then(result)
        if ticket.done:
            done.set_result(ticket)
            return future
        with self.lock:
            self._futures[ticket.seq] = done
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="patallreduce-completer", daemon=True
                )
                self._thread.start()
        self._engine.expect(ticket)
        return future

    def join(self) -> None:
        """Complete what is left and end the thread; the engine is closed."""
        self._ending = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            ticket = self._engine.next_done(_POLL_S)
            if ticket is not None:
                with self.lock:
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
        completer: Completer,
        tensor: torch.Tensor,
    ) -> None:
        self._engine = engine
        self.ticket = ticket
        self.future: torch.futures.Future[torch.Tensor] | None = None  # nobody has asked for it
        self._completer = completer
        self._tensor = tensor  # alive while the engine writes to it

    def __del__(self) -> None:
        """Keep the tensor, which nobody waits for, until the engine is done with it."""
        if not self.ticket.done:
            with contextlib.suppress(_core.TransportError):  # a forked child's has no engine
                self.get_future()

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
        with self._completer.lock:  # of threads that ask at once, one makes it
            if self.future is None:
                self.future = self._completer.future(self.ticket, self._tensor)
            return self.future
