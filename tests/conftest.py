"""Fixtures shared by all tests, and what ends a test that hangs.

A rank that hangs is ended or left behind by what started it (processes.py, threads.py). A test that
hangs otherwise is interrupted by pytest-timeout; one that cannot be, for it never comes back to
Python, ends its process with all stacks. `make test` has pytest-xdist go on in another one.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator

import hypothesis
import pytest
import torch

from benchmarks.lab import Network, available
from patallreduce import __main__
from tests.processes import LIMIT_S, RankProcesses, start_server

SLOW_LIMIT_S = 15 * 60
INTERRUPTION_S = 5  # at most, of a test by pytest-timeout

# A job in the background of a shell script ignores SIGINT, and so would the ranks that tests start
# and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# There are more processes than cores.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Other tests run beside: what an example takes says nothing of it.
hypothesis.settings.register_profile("beside others", deadline=None)
hypothesis.settings.load_profile("beside others")

STDERR = pytest.StashKey[int]()  # where nothing is captured


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(sys.stderr.fileno())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT_S))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # the tests themselves: nobody looks through all of them for garbage
    if any("processes" in getattr(item, "fixturenames", ()) for item in session.items):
        start_server()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not item.config.pluginmanager.hasplugin("timeout"):  # nothing is limited without
        return (yield)
    mark = item.get_closest_marker("timeout")
    limit_s = (mark.args[0] if mark else LIMIT_S) + INTERRUPTION_S
    faulthandler.dump_traceback_later(limit_s, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def processes() -> Iterator[RankProcesses]:
    """Rank processes: `processes.run(ranks, function, *args)`, `once`, or `on` a network."""
    pool = RankProcesses()
    yield pool
    pool.close()


@pytest.fixture
def emulated() -> type[Network]:
    """Of networks for `processes.on`, where they can be made."""
    if available().how != "root":
        pytest.skip(f"no namespaces: {available().reason or available().how}")
    return Network


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[object, str]]:
    """`python -m patallreduce` in this process: its exit status, and what it says."""

    def run(*arguments: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["patallreduce", *map(str, arguments)])
        status: object = 0
        try:
            __main__.main()
        except SystemExit as ended:
            status = ended.code
        return status, "".join(capsys.readouterr())

    return run
