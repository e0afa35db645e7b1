"""The examples with frameworks, as a user runs them. They need the extra `integrations`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
TIMEOUT_S = 300


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 10)
@pytest.mark.parametrize("framework", ["accelerate", "lightning", "ray", "transformers"])
def test_a_framework_trains_and_the_late_rank_is_found(framework):
    if not has(framework):
        pytest.skip(f"no {framework}: pip install 'patallreduce[integrations]'")
    launcher = [] if framework == "ray" else TORCHRUN  # Ray starts its own workers
    ran = subprocess.run(
        [sys.executable, *launcher, EXAMPLES / f"with_{framework}.py"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "late: [1]" in ran.stdout
