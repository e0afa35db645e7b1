"""Follow docs/tutorial.md to its end in a new environment, from a wheel.

    python -m tests.tutorial dist/patallreduce-*.whl --torch "torch==2.12.1"

Runs the page's commands in their order, in a folder with nothing but the examples, prints what they
print and how long each step took; exit status 1 if one fails, or does not name the slow rank.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "tutorial.md"
NAMED = "rank 2 is late by"
LONGEST_STEP_S = 1200  # torch comes over a network
LONGEST_END_S = 40


def commands(page: str) -> list[str]:
    """The commands of a page: what it runs where it is built, and what it says of the package."""
    ran = r"^```{run}\n(?::[^\n]*\n)*(.*?)^```"
    shown = re.compile(rf"{ran}|`(python -m patallreduce [^`]*)`", re.M | re.S)
    return [(built or said).strip() for built, said in shown.findall(page)]


def main() -> int:
    """Make the environment, and go through the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tutorial",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--torch", default="torch", help="what pip is to install before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patallreduce-tutorial-") as folder:
        return follow(Path(folder), options.wheel.resolve(), options.torch)


def follow(folder: Path, wheel: Path, torch: str) -> int:
    """Do all the page says."""
    shutil.copytree(TOP / "examples", folder / "examples")
    tools = folder / "env" / "bin"
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    took_s: dict[str, float] = {}
    printed = ""

    def run(name: str, *command: str) -> str:
        began_s = time.monotonic()
        print(f"$ {name}", flush=True)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        variables = {**others, "PATH": path, "OMP_NUM_THREADS": "1"}
        status, said = ended(command, folder, variables)
        took_s[name] = time.monotonic() - began_s
        print(said, flush=True)
        if status:
            raise SystemExit(f"{name}: exit status {status}")
        return said

    pip = [str(tools / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    run("python -m venv env", sys.executable, "-m", "venv", "env")
    run(f"pip install {torch}", *pip, *shlex.split(torch))
    run(f"pip install '{wheel.name}[viz]'", *pip, f"{wheel}[viz]")
    for command in commands(PAGE.read_text(encoding="utf-8")):
        printed += run(command, "bash", "-ec", command)
    for name, seconds in took_s.items():
        print(f"{seconds:6.1f} s  {name}")
    print(f"{sum(took_s.values()):6.1f} s  all of it")
    if NAMED not in printed:
        print(f"no line says: {NAMED}")
        return 1
    return 0


def ended(command: Sequence[str], folder: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Exit status of a command, and what it said; after `LONGEST_STEP_S` it is ended."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=LONGEST_STEP_S)
        finally:
            # First so that torchrun ends its ranks, which are in sessions of their own.
            for number, limit_s in ((signal.SIGTERM, LONGEST_END_S), (signal.SIGKILL, None)):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(limit_s)
    return process.returncode, said


if __name__ == "__main__":
    sys.exit(main())
