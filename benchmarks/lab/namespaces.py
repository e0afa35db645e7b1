"""Unnamed network namespaces: made, entered, and gone with the process that holds them.

A namespace here is nothing but an open file descriptor. No name is ever put into /run/netns, so
when the holder ends, by SIGKILL too, the kernel closes the descriptor and takes the namespace
with its links and addresses away. There is nothing to clean up and nothing to leave behind.

Making one needs CAP_SYS_ADMIN. Root has it; an ordinary user has it inside a user namespace of
their own, which a process enters by running itself again under unshare(1): a user namespace can
only be entered while there is a single thread, so doing it in place would depend on what has been
imported before.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

CLONE_NEWNS = 0x00020000  # linux/sched.h; os.unshare and os.setns come with Python 3.12
CLONE_NEWTIME = 0x00000080
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_OF_HOST = {CLONE_NEWIPC: "ipc", CLONE_NEWPID: "pid"}
MS_REC, MS_SLAVE = 1 << 14, 1 << 19  # linux/mount.h
PR_SET_PDEATHSIG = 1  # linux/prctl.h
USER_NAMESPACE = ["unshare", "--user", "--map-root-user", "--net"]
# Makes and configures one link, so that a kernel without veth or tbf is noticed here too.
PROBE = "from benchmarks.lab.network import Network; Network(ranks=1, rate_bit_s=1e6).close()"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]


class NamespaceError(RuntimeError):
    """The kernel refused to make or enter a namespace."""


def system_call(name: str, *arguments: int | bytes | None) -> None:
    """Call that one of libc.

    Raises:
        NamespaceError: it was refused.
    """
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise NamespaceError(f"{name}: {os.strerror(code)}")


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Move the calling thread into the namespace of that descriptor, and back afterwards.

    What is made inside (sockets, child processes) stays in the namespace.
    """
    home = _current_namespace()
    system_call("setns", namespace, CLONE_NEWNET)
    try:
        yield
    finally:
        system_call("setns", home, CLONE_NEWNET)
        os.close(home)


def make_namespace() -> int:
    """Return the descriptor of a new, empty network namespace; close it to drop the namespace."""
    home = _current_namespace()
    try:
        system_call("unshare", CLONE_NEWNET)
        try:
            return _current_namespace()
        finally:
            system_call("setns", home, CLONE_NEWNET)
    finally:
        os.close(home)


def _current_namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_for_good(namespace: int) -> None:
    """Move the calling process, of one thread, into the namespace of that descriptor.

    It also gets a /sys of its own that shows the namespace's devices: UCX looks for them in
    /sys/class/net, and that shows the namespace in which it was mounted.
    """
    system_call("setns", namespace, CLONE_NEWNET)
    own_mounts()
    system_call("mount", b"sysfs", b"/sys", b"sysfs", 0, None)


def _die_with_thread() -> None:
    """Of the thread that started this process; whose parent may be outside its namespace."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Host:
    """A PID and an IPC namespace: who is inside sees no process and no shared memory outside.

    So processes of two hosts reach each other by the network alone, as on two machines. Goes with
    the process that holds it.
    """

    def __init__(self) -> None:
        home = {kind: os.open(f"/proc/self/ns/{_OF_HOST[kind]}", os.O_RDONLY) for kind in _OF_HOST}
        for kind in _OF_HOST:
            system_call("unshare", kind)  # of PIDs: of children
        self._first = subprocess.Popen(  # the namespace ends with its first process
            ["sleep", "infinity"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_thread,  # noqa: PLW1509
        )
        self.pid = self._first.pid
        for kind, descriptor in home.items():
            system_call("setns", descriptor, kind)
            os.close(descriptor)

    def close(self) -> None:
        """End it, with all processes inside."""
        self._first.kill()
        self._first.wait()


def enter_host_for_good(pid: int) -> None:
    """Go on inside of that host, in a child; the calling process waits and ends as it does.

    It has one thread, and may be between fork and exec.
    """
    for kind, name in _OF_HOST.items():
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        system_call("setns", descriptor, kind)
        os.close(descriptor)
    child = os.fork()
    if child == 0:
        _die_with_thread()
        own_mounts()
        system_call("mount", b"proc", b"/proc", b"proc", 0, None)  # of these processes
        return
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # who started it waits for one to be closed
    for ignored in (signal.SIGTERM, signal.SIGINT):  # the child has them, too
        signal.signal(ignored, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def own_mounts() -> None:
    """Let no other process see what the calling one, of one thread, mounts from now on."""
    system_call("unshare", CLONE_NEWNS)
    system_call("mount", b"none", b"/", None, MS_REC | MS_SLAVE, None)  # ours stays ours


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send that signal to this process when the thread that started it ends.

    `parent` is the process that forked: if it is gone already, its death can no longer be
    announced. May be called between fork and exec; exec keeps the setting.
    """
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(128 + number)


@dataclass(frozen=True)
class Availability:
    """Whether this process can make an emulated network; true or false as a condition."""

    how: str  # "root", "user namespace" (call enter_user_namespace first), or "no"
    reason: str  # why not; empty if it can

    def __bool__(self) -> bool:
        return self.how != "no"


@lru_cache(maxsize=1)
def available() -> Availability:
    """Try to make a network of one rank in a process of its own, as root or as an ordinary user."""
    reasons = []
    for how, prefix in {"root": [], "user namespace": USER_NAMESPACE}.items():
        if prefix and shutil.which(prefix[0]) is None:
            reasons.append(f"{how}: no unshare(1)")
            continue
        probe = subprocess.run(
            [*prefix, sys.executable, "-c", PROBE],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        if probe.returncode == 0:
            return Availability(how, "")
        last_line = (probe.stderr.strip() or f"exit code {probe.returncode}").splitlines()[-1]
        reasons.append(f"{how}: {last_line}")
    return Availability("no", "; ".join(reasons))


def enter_user_namespace() -> None:
    """Run this program again inside a user namespace if only there it can make networks.

    Returns at once where nothing is to be done; otherwise does not return. Call it first thing:
    whatever the program did before it, it does twice.
    """
    if available().how == "user namespace":
        os.execvp(USER_NAMESPACE[0], [*USER_NAMESPACE, sys.executable, *sys.orig_argv[1:]])
