"""What is run on a machine with a GPU, in which order, and how long each part may take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from . import figures
from .part import ROOT, Part

PYTHON = sys.executable


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
