"""What a figure depends on besides the case itself: commit, machine and versions."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def environment() -> dict[str, Any]:
    """Collect it, for a record."""
    return {
        "commit": _commit(),
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu": processor(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "variables": {
            name: value for name, value in os.environ.items() if name.startswith("PATALLREDUCE_")
        },
        **{name: _version(name) for name in ("torch", "patallreduce", "mpi4py", "libucx-cu13")},
    }


def processor() -> str:
    """Name the processor, where Linux tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.machine()


def _commit() -> str:
    describe = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(
            describe, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:  # no git on this machine
        return "unknown"
    return answer.stdout.strip() or "unknown"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
