"""Build, check and time everything that needs a GPU, in less than ten minutes.

    python -m benchmarks.gpu_check --out out/gpu

One part after the other, each a command with a time of its own, and what those before it have left
of theirs: one that fails or hangs does not stop the others. OUT gets summary.json and summary.txt
(rewritten after every part), log.txt (what all commands printed), and the lines and the picture of
the benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import gpu_check_figures as figures
from .allreduce import environment

ROOT = Path(__file__).parents[1]
TOTAL_S = 585.0  # for all parts, whatever each may take: who starts this may give it ten minutes
GRACE_S = 5.0  # from SIGTERM, which lets a command end its own children, to SIGKILL
PYTHON = sys.executable
MIB = 1 << 20


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


def pytest(*arguments: str) -> list[str]:
    """Run tests, naming whatever was skipped or failed; a new torch's warnings are no failures."""
    options = ["-v", "-rfEs", "-p", "no:cacheprovider", "-W", "default"]
    return [PYTHON, "-m", "pytest", *options, *arguments]


def parts(out: Path) -> list[Part]:
    """Everything there is. What a part leaves of its time the later ones may take."""
    gpu = [PYTHON, "-m", "benchmarks.gpu"]
    ranks = "tests/cuda/test_gpu_ranks.py"
    long = "(8 or thousand)"  # ranks, iterations: they wait until all else was tried once
    must = {"FAIL_WITHOUT_CUDA": "1"}
    sizes = [str(size << 20) for size in (64, 256, 1024)]
    # Where ranks take turns on the GPU, a stage of a schedule lasts as long as all their turns.
    short = ["--repeats", "3", "--calls", "2", "--timeout-s", "70", "--out", str(out)]
    # In the cache of torch, memcheck would take a neighbour's memory for the array's own.
    bare = {**must, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    sanitized = pytest("tests/cuda/test_kernels.py", "-k", "gpu and float16 and sum and not nvcc")
    return [
        Part("gpu", ["nvidia-smi"], 5, needs="nvidia-smi"),
        Part("build", build_command(), 180, unless=is_built),
        Part("facts", [PYTHON, "-m", "patallreduce", "info"], 20, figures_of=figures.facts),
        Part(
            "kernel tests",
            pytest("tests/cuda", "--ignore=tests/cuda/test_gpu_ranks.py"),
            60,
            must,
            figures.tests,
        ),
        Part(
            "tests of ranks",
            pytest(ranks, "-m", "not slow", "-k", f"not over_ucx and not {long}"),
            90,
            must,
            figures.tests,
        ),
        Part(
            "kernels",
            [*gpu, "kernels", "--sizes-bytes", *sizes, "--forms", "separate", "also", "scaled"],
            40,
            figures_of=lambda output: figures.kernels(output, out),
        ),
        Part(
            "all-reduce",
            [*gpu, "all-reduce", *short],
            80,
            figures_of=lambda _: figures.all_reduce(out),
        ),
        Part(
            "longer tests",
            pytest(ranks, "-m", "not slow", "-k", f"not over_ucx and {long}"),
            70,
            must,
            figures.tests,
        ),
        Part(
            "sanitizer",
            ["compute-sanitizer", "--error-exitcode", "86", *sanitized],
            20,
            bare,
            figures.sanitizer,
            needs="compute-sanitizer",
        ),
        Part("tests over ucx", pytest(ranks, "-k", "over_ucx"), 20, must, figures.tests),
    ]


def build_command() -> list[str]:
    """Build in place with what is installed: nothing is fetched."""
    pip = [PYTHON, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    return [*pip, "--editable", "."]


def is_built() -> bool:
    """Whether core and kernels are there and newer than their sources.

    Asked in a process of its own, which may crash.
    """
    sources = [ROOT / "setup.py", *(path for path in (ROOT / "csrc").rglob("*") if path.is_file())]
    changed_s = max(path.stat().st_mtime for path in sources)
    look = (
        "import os, patallreduce._core as core, patallreduce.gpu.cuda as cuda\n"
        f"assert min(map(os.path.getmtime, (core.__file__, cuda.library_path()))) > {changed_s!r}"
    )
    command = [PYTHON, "-c", look]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


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


def summarise(out: Path, outcomes: list[Outcome], where: dict[str, Any]) -> str:
    """Write what is known so far; the text for people."""
    summary = {
        "ok": all(outcome.rc in {0, None} for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "parts": [asdict(outcome) for outcome in outcomes],
        **where,
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    lines = [f"{'part':16}{'rc':>6}{'seconds':>9}  figures"]
    for outcome in outcomes:
        told = [f"{name}: {value}" for name, value in outcome.figures.items()]
        rc = "-" if outcome.rc is None else str(outcome.rc)
        told += [outcome.reason] if outcome.reason else []
        first, *others = told or [""]
        lines.append(f"{outcome.name:16}{rc:>6}{outcome.seconds:9.1f}  {first}")
        lines += [" " * 33 + line for line in others]
    text = "\n".join(lines) + "\n"
    (out / "summary.txt").write_text(text, encoding="utf-8")
    return text


def main() -> None:
    """Run all parts, or the chosen ones."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_check",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    names = [part.name for part in parts(Path())]
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="folder")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", default=names)
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log.txt"
    log.write_text("", encoding="utf-8")
    for old in ("kernels.jsonl", "all_reduce.jsonl", "all_reduce.png"):
        (out / old).unlink(missing_ok=True)
    where = {"environment": {**environment(), "platform": platform.platform()}}
    outcomes: list[Outcome] = []
    text, saved_s, until_s = "", 0.0, time.monotonic() + TOTAL_S
    for part in parts(out):
        if part.name in options.only:
            print(f"{part.name} ...", flush=True)
            outcomes.append(run(part, log, saved_s, until_s - time.monotonic()))
            saved_s = max(0.0, saved_s + part.budget_s - outcomes[-1].seconds)
            text = summarise(out, outcomes, where)
    print(text)
    if not all(outcome.rc in {0, None} for outcome in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
