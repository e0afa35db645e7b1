"""Run one program per rank, and make sure that none of them outlives the call.

A rank runs in a session of its own, so it can be killed with all it started. Should the launcher
itself be killed, the kernel kills the ranks (PR_SET_PDEATHSIG), but not what they had started;
where that would not notice, start the command under benchmarks.lab.supervise.

The first rank to fail ends the others: their peer is gone, and most would only wait for it until
their own deadline.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import IO, Literal

from .namespaces import die_with_parent, enter_for_good, enter_host_for_good

GRACE_S = 1.0  # from SIGTERM to SIGKILL
POLL_S = 0.05
TAIL_CHARACTERS = 2000

Show = Literal["all", "rank0", "none"]


@dataclass(frozen=True)
class RankProgram:
    """What one rank runs and where: `namespace` is a descriptor, or None for the caller's own.

    `host` is the process of a Host, apart from those of others, or None.
    """

    command: list[str]
    environment: dict[str, str]
    namespace: int | None = None
    host: int | None = None

    def enter(self) -> None:
        """Have the calling process, of one thread, go on there; maybe in a child.

        May be called between fork and exec.
        """
        if self.namespace is not None:
            enter_for_good(self.namespace)
        if self.host is not None:
            enter_host_for_good(self.host)


@dataclass
class RankResult:
    """How one rank ended: exit code (negative: killed by that signal) and all it printed."""

    rank: int
    exit_code: int
    output: str


class RankFailedError(RuntimeError):
    """A rank ended with an exit code other than 0; the others have been killed."""

    def __init__(self, failed: RankResult) -> None:
        self.failed = failed
        super().__init__(
            f"rank {failed.rank} ended with exit code {failed.exit_code}; its last output:\n"
            f"{failed.output[-TAIL_CHARACTERS:]}"
        )


class RankTimeoutError(TimeoutError):
    """Some ranks had not ended by the deadline; all have been killed."""


@dataclass
class _Running:
    rank: int
    process: subprocess.Popen[bytes]
    output: bytearray = field(default_factory=bytearray)
    shown: int = 0  # bytes of output already passed on, always whole lines


def run_ranks(
    programs: Sequence[RankProgram],
    *,
    timeout_s: float = 600.0,
    show: Show = "none",
    check: bool = True,
) -> list[RankResult]:
    """Run one program per rank and wait until all have ended.

    Args:
        programs: by rank.
        timeout_s: after this many seconds every rank is killed.
        show: whose output to print while it comes: every rank's, each line with its rank in
            front, rank 0's only, or none. The results hold it in any case.
        check: end all ranks when the first one fails; else let every rank run to its own end.

    Raises:
        RankFailedError: `check` is set and a rank failed.
        RankTimeoutError: ranks were still running at the deadline.

    """
    deadline_s = time.monotonic() + timeout_s
    running: list[_Running] = []
    try:
        with selectors.DefaultSelector() as selector:
            for rank, program in enumerate(programs):
                ours = _Running(rank, _start(program))
                running.append(ours)
                assert ours.process.stdout is not None
                selector.register(ours.process.stdout, selectors.EVENT_READ, ours)
            while any(ours.process.poll() is None for ours in running):
                if time.monotonic() > deadline_s:
                    late = [ours.rank for ours in running if ours.process.poll() is None]
                    raise RankTimeoutError(f"ranks {late} still running after {timeout_s} s")
                if check:
                    _raise_if_failed(running, selector, show)
                _read(selector, show, POLL_S)
            _read(selector, show, 0.0)
            if check:
                _raise_if_failed(running, selector, show)
            return [_result(ours) for ours in running]
    finally:
        _kill([ours.process for ours in running])


def _start(program: RankProgram) -> subprocess.Popen[bytes]:
    launcher = os.getpid()

    def before_exec() -> None:
        die_with_parent(launcher)
        program.enter()

    return subprocess.Popen(
        program.command,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **program.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # Safe beside other threads: a few system calls, no lock, no import.
        preexec_fn=before_exec,  # noqa: PLW1509
    )


def _read(selector: selectors.BaseSelector, show: Show, wait_s: float) -> None:
    """Take in what the ranks have printed; return when nothing has come for `wait_s`."""
    if not selector.get_map():
        time.sleep(wait_s)
    while events := selector.select(wait_s) if selector.get_map() else []:
        wait_s = 0.0
        for key, _ in events:
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            ours: _Running = key.data
            data = os.read(stream.fileno(), 1 << 16)
            if not data:
                selector.unregister(stream)
            ours.output += data
            _print_lines(ours, show, ended=not data)


def _print_lines(ours: _Running, show: Show, *, ended: bool) -> None:
    if show == "none" or (show == "rank0" and ours.rank != 0):
        return
    until = len(ours.output) if ended else ours.output.rfind(b"\n") + 1
    prefix = f"[{ours.rank}] " if show == "all" else ""
    for line in ours.output[ours.shown : until].decode(errors="replace").splitlines():
        print(f"{prefix}{line}")
    ours.shown = max(ours.shown, until)
    sys.stdout.flush()


def _raise_if_failed(running: list[_Running], selector: selectors.BaseSelector, show: Show) -> None:
    for ours in running:
        if ours.process.poll():
            _read(selector, show, 0.0)
            raise RankFailedError(_result(ours))


def _result(ours: _Running) -> RankResult:
    return RankResult(ours.rank, ours.process.poll() or 0, ours.output.decode(errors="replace"))


def _kill(processes: list[subprocess.Popen[bytes]]) -> None:
    """End every rank and whatever is left in its session: SIGTERM, a moment, SIGKILL."""
    for process in processes:
        # The group outlives its leader while any member lives, and then its id is not reused.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    while time.monotonic() < deadline_s and any(p.poll() is None for p in processes):
        time.sleep(0.01)
    kill_sessions({process.pid for process in processes})
    for process in processes:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def kill_sessions(sessions: Container[int]) -> None:
    """Send SIGKILL to every other process of those sessions, whichever group it has moved to.

    Again, until there is none that was not there before: one may have forked meanwhile.
    """
    killed = {os.getpid()}
    while found := {pid for pid in _processes() if pid not in killed and _session(pid) in sessions}:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):  # gone meanwhile, or hidden and then not ours
        return -1
