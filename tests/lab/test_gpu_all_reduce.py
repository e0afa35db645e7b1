"""The GPU all-reduce benchmark without a GPU: rehearsed, refused, reporting made-up rows."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import all_reduce, report
from benchmarks.gpu.__main__ import parse_arguments
from benchmarks.gpu.worker import draw, record, wrong_elements
from benchmarks.lab.measures import Sample
from benchmarks.lab.one_gpu import OneGpu

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *arguments],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_a_rehearsal_writes_records_tables_and_a_picture(tmp_path):
    arguments = ["--ranks", "2", "--bytes", "64KiB", "--algorithms", "slt:8", "nccl"]
    arguments += ["--late", "none", "1=0.5", "--repeats", "2", "--calls", "3"]

    ran = run("all-reduce", *arguments, "--rehearse", "--out", str(tmp_path), "--timeout-s", "40")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = [json.loads(line) for line in (tmp_path / "all_reduce.jsonl").read_text().splitlines()]
    assert [(line["algorithm"], line["late_rank"]) for line in lines] == [
        ("slt:8", None),
        ("nccl", None),
        ("slt:8", 1),
        ("nccl", 1),
    ]
    for line in lines:
        assert (line["wrong"], len(line["samples"])) == (0, 2)
        assert line["environment"]["nccl_settings"]["NCCL_HOSTID"] == "patallreduce-0"
    for late in lines[2:]:
        for sample in late["samples"]:
            first, last = sample["arrivals_s"]
            assert last - first == pytest.approx(0.5, abs=0.4)  # beside other tests
    assert (tmp_path / "all_reduce.png").read_bytes().startswith(b"\x89PNG")
    assert "busbw" in ran.stdout
    assert "rank 1 0.5 s (kernel)" in ran.stdout


def test_without_a_gpu_nothing_is_started(tmp_path):
    ran = run("all-reduce", "--out", str(tmp_path / "none"))

    assert ran.returncode == 1
    assert "benchmarks.gpu needs a GPU: torch" in ran.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "1"], "expected 2 ranks or more, got 1"),
        (["--ranks", "4", "2", "--late", "3=0.1"], "names a rank that 2 ranks do not have"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    options = parse_arguments(["all-reduce", "--rehearse", *arguments])
    with pytest.raises(SystemExit, match=message):
        all_reduce.check(options)


def test_algorithms_may_have_segments():
    for good in ("nccl", "ring", "slt:32"):
        assert all_reduce.parse_algorithm(good) == good
    for bad in ("nobody", "slt:", "slt:0", "slt:x", "nccl:4"):
        with pytest.raises(argparse.ArgumentTypeError):
            all_reduce.parse_algorithm(bad)


def test_every_rank_is_a_host_of_its_own_to_nccl():
    programs = OneGpu(3).programs(["true"])

    assert len({program.environment["NCCL_HOSTID"] for program in programs}) == 3
    assert {program.environment["NCCL_SOCKET_IFNAME"] for program in programs} == {"lo"}
    assert [program.environment["RANK"] for program in programs] == ["0", "1", "2"]


def test_an_mps_server_is_of_its_own_and_ends(tmp_path, monkeypatch):
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text('#!/bin/sh\necho "$@" "$(cat)" "$CUDA_MPS_PIPE_DIRECTORY" >> "$TOLD"\n')
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))

    with OneGpu(2, mps=True) as one_gpu:
        folders = {p.environment["CUDA_MPS_PIPE_DIRECTORY"] for p in one_gpu.programs(["true"])}

    (folder,) = folders
    assert not Path(folder).exists()
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert told == [["-d", folder], ["quit", folder]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_roundings_are_allowed_and_nothing_else(dtype):
    given = [draw(seed, 1000, dtype, CPU) for seed in range(4)]
    result = given[0] + given[1] + given[2] + given[3]

    assert wrong_elements(result, given) == 0
    assert wrong_elements(result, given[:3] + given[:1]) > 900
    result[17] = torch.nan
    result[18] += 0.1 * (1 + result[18].abs())
    assert wrong_elements(result, given) == 2


def rows():
    """Records of every kind, by the worker's own arithmetic."""
    plan = {
        "dtype": "bfloat16",
        "delay_by": "host",
        "mps": False,
        "transport": "nccl",
        "environment": {},
    }
    for ranks in (2, 4):
        for size_bytes in (1 << 20, 1 << 24):
            for delay_s in (0.0, 0.2):
                arrivals_s = [0.0] * (ranks - 1) + [delay_s]
                samples = {
                    name: [
                        Sample(arrivals_s, [delay_s + time_s * n] * ranks) for n in (1.0, 2.0, 3.0)
                    ]
                    for name, time_s in {"ring": 0.004, "nccl": 0.002}.items()
                }
                for name in samples:
                    yield record(
                        plan,
                        name,
                        samples,
                        [0.001] if ranks == 2 else [],
                        message_bytes=size_bytes,
                        arrivals_s=arrivals_s,
                        wrong=3,
                    )


def test_ratios_are_taken_within_a_round():
    for row in rows():
        assert row["ratio_to_nccl"] == pytest.approx(2.0 if row["algorithm"] == "ring" else 1.0)
        assert row["count"] == row["bytes"] // 2
        if row["late_rank"] is None:
            busbw = row["bytes"] / row["average_elapsed_s"] * 2 * (row["ranks"] - 1) / row["ranks"]
            assert row["busbw_bytes_s"] == pytest.approx(busbw)
        else:
            assert row["late_rank"] == row["ranks"] - 1
            assert row["ratio_of"] == "after_s"


def test_made_up_rows_make_tables_and_a_picture(tmp_path, capsys):
    report.print_report(list(rows()))
    report.draw(list(rows()), tmp_path / "picture.png")

    printed = capsys.readouterr().out
    # 4 ranks, 16 MiB in 4 ms: 4.194 GB/s, and 1.5 times that over each rank's link.
    (line,) = [
        line for line in printed.splitlines() if line.split()[:3] == ["nccl", "4", "16777216"]
    ]
    assert " ".join(line.split()[3:]) == "8388608 bfloat16 sum 4000.0 4.194 6.291 3 n/a 1.00"
    assert "rank 3 0.2 s (host)" in printed
    assert (tmp_path / "picture.png").stat().st_size > 10_000
