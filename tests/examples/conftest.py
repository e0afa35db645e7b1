"""The example's modules import each other as torchrun lets them: from their own folder."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture
def examples() -> Path:
    return EXAMPLES
