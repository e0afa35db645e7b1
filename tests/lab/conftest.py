"""The lab as its users start it, and a look at what it leaves behind."""

import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.processes import USUAL_S

ROOT = Path(__file__).parents[2]
# `benchmarks` is run from the source tree, never installed.
sys.path.insert(0, str(ROOT))

MARK = "LAB_TEST_MARK"


@dataclass
class Lab:
    """Starts `python -m benchmarks.lab` with a mark in the environment of all it starts."""

    rate: str
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(
        self, ranks: int, program: str, *options: str
    ) -> AbstractContextManager[subprocess.Popen[str]]:
        """Start the command line with a Python program to run per rank."""
        command = ["-m", "benchmarks.lab", "--ranks", str(ranks), "--rate", self.rate, *options]
        return self.start_python(*command, "--", sys.executable, "-c", program)

    @contextmanager
    def start_python(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start Python from the source tree; killed if still there at the end of the block."""
        launcher = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with launcher:
            try:
                yield launcher
            finally:
                launcher.kill()

    def run(self, ranks: int, program: str, *options: str) -> tuple[int, str]:
        with self.start(ranks, program, *options) as process:
            output, _ = process.communicate(timeout=USUAL_S)
            return process.returncode, output

    def left_behind(self) -> list[str]:
        """Command lines of processes that still carry the mark; they get 2 s to vanish."""
        deadline_s = time.monotonic() + 2.0
        while (alive := list(self._alive())) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        return alive

    def _alive(self) -> Iterator[str]:
        wanted = f"{MARK}={self.mark}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (process / "environ").read_bytes().split(b"\0"):
                    yield (process / "cmdline").read_text().replace("\0", " ")
            except OSError:  # ended meanwhile, or another user's
                continue


def namespaces_in_use() -> set[str]:
    """Network namespaces that any process is in or holds open, as net:[inode]."""
    in_use = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [process / "ns" / "net", *(process / "fd").iterdir()]
        except OSError:
            continue
        for link in links:
            try:
                in_use.add(os.readlink(link))
            except OSError:
                continue
    return {name for name in in_use if name.startswith("net:")}


@pytest.fixture
def network_lab() -> Iterator[Lab]:
    """Yield a lab with namespaces; afterwards nothing is alive and no device is left."""
    from benchmarks.lab import available

    if not available():
        pytest.skip(f"no network namespaces here: {available().reason}")
    devices = socket.if_nameindex()
    lab = Lab("200mbit")
    yield lab
    assert lab.left_behind() == []
    assert socket.if_nameindex() == devices


@pytest.fixture
def plain_lab() -> Iterator[Lab]:
    """Yield a lab without namespaces; afterwards nothing it started is alive."""
    lab = Lab("none")
    yield lab
    assert lab.left_behind() == []


@pytest.fixture
def in_use() -> Callable[[], set[str]]:
    return namespaces_in_use


@pytest.fixture
def lab_root() -> Path:
    return ROOT
