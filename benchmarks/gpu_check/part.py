"""One part of the check: its command, run within its time in a session of its own, its outcome."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GRACE_S = 5.0  # from SIGTERM, which lets a command end its own children, to SIGKILL


@dataclass
class Part:
    """One command, the time it may take, and what its output says."""

    name: str
    command: list[str]
    budget_s: float
    environment: dict[str, str] = field(default_factory=dict)
    figures_of: Callable[[str], dict[str, Any]] = field(default=lambda _: {})
    needs: str | None = None  # a program; without it the part is skipped
    unless: Callable[[], bool] = field(default=lambda: False)  # there is nothing to do


@dataclass
class Outcome:
    """How a part ended: rc is None if it was skipped, 124 if its time was over."""

    name: str
    command: str
    rc: int | None
    seconds: float
    figures: dict[str, Any]
    reason: str = ""


def run(part: Part, log: Path, saved_s: float = 0.0, left_s: float | None = None) -> Outcome:
    """Run one command to its end, or end it with all of its session when its time is over.

    Args:
        part: What to run.
        log: Gets what it prints.
        saved_s: What the parts before it left of their time.
        left_s: Until everything has to be over.
    """
    shown = shlex.join(part.command)
    if part.needs and shutil.which(part.needs) is None:
        return Outcome(part.name, shown, None, 0.0, {}, f"no {part.needs} on this machine")
    if part.unless():
        return Outcome(part.name, shown, None, 0.0, {}, "nothing to do")
    budget_s = part.budget_s + saved_s
    if left_s is not None:
        budget_s = min(budget_s, left_s)
    if budget_s <= 0:
        return Outcome(part.name, shown, 124, 0.0, {}, "no time was left")
    started_s = time.monotonic()
    with log.open("ab") as output:
        output.write(f"\n===== {part.name}: {shown}\n".encode())
        output.flush()
        begin = output.tell()
        process = subprocess.Popen(
            part.command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **part.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        reason = ""
        try:
            rc = process.wait(budget_s)
        except subprocess.TimeoutExpired as error:
            rc, reason = 124, f"its {error.timeout:.0f} s were over"
        finally:
            end(process)
    seconds = round(time.monotonic() - started_s, 1)
    text = log.read_bytes()[begin:].decode(errors="replace")
    try:
        found = part.figures_of(text)
    except (ValueError, KeyError, OSError) as error:  # of output that broke off
        found = {"unreadable": f"{type(error).__name__}: {error}"}
    return Outcome(part.name, shown, rc, seconds, found, reason or (last_line(text) if rc else ""))


def last_line(text: str) -> str:
    """Return the line that most likely says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what is left in its session."""
    for what, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, what)
        except ProcessLookupError:
            break
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
