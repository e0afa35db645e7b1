"""Fixtures shared by all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.processes import RankProcesses

# A job in the background of a shell script ignores SIGINT, and so would the ranks that tests start
# and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def processes() -> Iterator[RankProcesses]:
    """Rank processes: `processes.run(ranks, function, *args)`."""
    pool = RankProcesses()
    yield pool
    pool.close()
