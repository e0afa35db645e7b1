"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import RankProcesses


@pytest.fixture(scope="session")
def processes() -> Iterator[RankProcesses]:
    """Rank processes: `processes.run(ranks, function, *args)`."""
    pool = RankProcesses()
    yield pool
    pool.close()
