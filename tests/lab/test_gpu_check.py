"""benchmarks.gpu_check without a GPU: parts that fail, hang and are skipped, and their figures."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu_check import figures, part
from benchmarks.gpu_check import parts as all_parts
from benchmarks.gpu_check.__main__ import TOTAL_S, summarise
from benchmarks.gpu_check.part import GRACE_S, Part, run
from benchmarks.gpu_check.parts import is_built, parts

HANGS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def python(program, budget_s=20.0, **options):
    return Part("part", [sys.executable, "-c", program], budget_s, **options)


@pytest.fixture(name="log")
def log_fixture(tmp_path):
    return tmp_path / "log.txt"


def test_all_parts_fit_into_ten_minutes():
    assert sum(part.budget_s for part in parts(Path("out"))) <= TOTAL_S
    assert TOTAL_S + GRACE_S < 600


def test_what_a_part_prints_is_logged_and_read(log):
    log.write_text("before\n")
    outcome = run(python("print('3 passed in 1.5s')", figures_of=figures.tests), log)

    assert (outcome.rc, outcome.figures, outcome.reason) == (0, {"passed": 3}, "")
    assert log.read_text().startswith("before\n")
    assert log.read_text().endswith("3 passed in 1.5s\n")


def test_a_failing_part_says_why(log):
    outcome = run(python("import sys; print('out of paper'); sys.exit(3)"), log)

    assert (outcome.rc, outcome.reason) == (3, "out of paper")


def test_a_part_that_hangs_is_ended_with_its_children(log, monkeypatch):
    monkeypatch.setattr(part, "GRACE_S", 0.5)
    outcome = run(python(HANGS, 0.5), log, saved_s=0.5)

    assert (outcome.rc, outcome.reason) == (124, "its 1 s were over")
    child = Path("/proc") / log.read_text().split()[-1]
    deadline_s = time.monotonic() + 5
    while child.exists() and "Z" not in (child / "stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < deadline_s, "a child was left"
        time.sleep(0.05)


def test_no_part_takes_longer_than_all_may(log):
    ended = run(python("import time; time.sleep(20)"), log, left_s=0.5)
    assert (ended.rc, ended.reason) == (124, "its 0 s were over")

    never = run(python("print('began')"), log, left_s=-1.0)
    assert (never.rc, never.reason) == (124, "no time was left")


def test_what_is_older_than_its_sources_is_built_again(tmp_path, monkeypatch):
    monkeypatch.setattr(all_parts, "ROOT", tmp_path)
    package, sources = tmp_path / "patallreduce", tmp_path / "csrc"
    (package / "gpu").mkdir(parents=True)
    sources.mkdir()
    core, kernels = package / "_core.py", package / "kernels.so"
    (package / "__init__.py").touch()
    (package / "gpu" / "__init__.py").touch()
    (package / "gpu" / "cuda.py").write_text(f"library_path = lambda: {str(kernels)!r}\n")
    files = [tmp_path / "setup.py", sources / "engine.cpp", core, kernels]
    for age, file in enumerate(reversed(files)):
        file.touch()
        os.utime(file, (1000 - age, 1000 - age))
    assert is_built()

    os.utime(sources / "engine.cpp", (2000, 2000))
    assert not is_built()

    os.utime(sources / "engine.cpp", (1, 1))
    kernels.unlink()
    assert not is_built()


def test_a_part_without_its_program_is_skipped(log):
    outcome = run(python("raise SystemExit(1)", needs="no-such-program"), log)
    assert (outcome.rc, outcome.reason) == (None, "no no-such-program on this machine")

    outcome = run(python("raise SystemExit(1)", unless=lambda: True), log)
    assert (outcome.rc, outcome.reason) == (None, "nothing to do")


def test_figures_that_cannot_be_read_do_not_stop_the_others(log):
    outcome = run(python("print('{1}')", figures_of=figures.json_lines), log)

    assert outcome.rc == 0
    assert "JSONDecodeError" in outcome.figures["unreadable"]


def test_the_summary_tells_every_part(log, tmp_path):
    outcomes = [
        run(python("print('2 passed, 1 failed in 3s')", figures_of=figures.tests), log),
        run(python("raise SystemExit('no GPU')"), log),
        run(python("", needs="no-such-program"), log),
    ]
    text = summarise(tmp_path, outcomes, {"environment": {"host": "here"}})

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [part["rc"] for part in summary["parts"]] == [0, 1, None]
    assert summary["ok"] is False
    assert summary["environment"] == {"host": "here"}
    assert (tmp_path / "summary.txt").read_text() == text
    assert "no GPU" in text


def test_figures_of_tests():
    output = "x\nFAILED tests/a.py::b - why\n1 failed, 20 passed, 3 skipped, 4 deselected in 5s"
    assert figures.tests(output) == {
        "failed": 1,
        "passed": 20,
        "skipped": 3,
        "deselected": 4,
        "first failures": "tests/a.py::b",
    }


def test_figures_of_tests_that_were_ended():
    output = (
        "tests/a.py::b PASSED   [ 1%]\ntests/a.py::c PASSED  [ 2%]\ntests/a.py::d FAILED [ 3%]\n"
    )
    assert figures.tests(output) == {"failed so far": 1, "passed so far": 2}


def test_figures_of_kernels(tmp_path):
    rows = [
        {"dtype": "float32", "form": form, "array_bytes": size << 20, "ratio_to_copy": ratio}
        | {"copy_gb_per_s": 4000.0}
        for form, size, ratio in [("also", 1, 0.1), ("also", 64, 0.8), ("scaled", 256, 0.97)]
    ]
    output = "noise\n" + "\n".join(map(json.dumps, rows)) + '\n{"broken": '

    found = figures.kernels(output, tmp_path)

    assert found == {
        "cases": 3,
        "smallest ratio to copy, also": 0.8,
        "smallest ratio to copy, scaled": 0.97,
        "cases below 0.85": "1 of 2",
        "below: float32 also 64 MiB": 0.8,
        "copy GB/s": "4000.0 to 4000.0",
    }
    assert len((tmp_path / "kernels.jsonl").read_text().splitlines()) == 3


def test_figures_of_all_reduce(tmp_path):
    def row(algorithm, ratio, late_rank):
        times = {"average_elapsed_s": 0.004, "after_s": 0.002}
        measure = "average_elapsed_s" if late_rank is None else "after_s"
        case = {"ranks": 2, "bytes": 1024, "late_rank": late_rank, "wrong": 1}
        return {
            "algorithm": algorithm,
            "ratio_to_nccl": ratio,
            "ratio_of": measure,
            **case,
            **times,
        }

    rows = [row(*case) for case in [("ring", 1.5, None), ("slt:8", 0.7, None), ("nccl", 1.0, None)]]
    rows += [row("ring", 0.5, 1), row("nccl", 1.0, 1)]
    (tmp_path / "all_reduce.jsonl").write_text("\n".join(map(json.dumps, rows)))

    assert figures.all_reduce(tmp_path) == {
        "cases": 5,
        "wrong": 5,
        "2 ranks, 1024 bytes, elapsed, balanced": "nccl 4.00 ms, slt:8 0.70 of it",
        "2 ranks, 1024 bytes, after, one late": "nccl 2.00 ms, ring 0.50 of it",
    }


def test_figures_of_the_sanitizer_and_the_facts():
    said = figures.sanitizer("8 passed in 3s\n===== ERROR SUMMARY: 0 errors\n")
    assert said == {"said": "ERROR SUMMARY: 0 errors", "passed": 8}
    told = figures.facts("torch         2.13 (CUDA 13.0)\nCUDA device 0  NVIDIA H200, sm_90")
    assert told == {"torch": "2.13 (CUDA 13.0)", "CUDA device 0": "NVIDIA H200, sm_90"}
