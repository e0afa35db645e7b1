"""Iterations made up so that every measure is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from patallreduce.records.iterations import Iteration
from tests.records import made_up


@pytest.fixture
def make_iteration() -> Callable[..., Iteration]:
    return made_up.make_iteration
