"""All-reduce side by side: sizes x algorithms x ranks x arrival patterns, rivals in the same run.

    python -m benchmarks.allreduce --network 200mbit --ranks 8 --bytes 4MiB \
        --algorithms ring slt gloo --late none 1=0.3 1=1

Writes one JSON line per case to OUT/allreduce.jsonl and a picture to OUT/allreduce.png, and prints
a table. `--network` is a rate (an emulated network, see benchmarks/lab) or `shm`: the ranks share
this machine. The ranks themselves run benchmarks/allreduce_worker.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .allreduce_report import draw, print_tables
from .lab import Loopback, Network, RankFailedError, RankTimeoutError
from .lab.__main__ import end_on_sigterm, make_network
from .lab.openmpi import openmpi_missing, run_openmpi
from .rivals import PATALLREDUCE, RIVALS

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "B": 1, "": 1}
SHARED_MEMORY = "shm"
# Where calls take microseconds many are timed together; each has a bucket of its own.
SHARED_MEMORY_CALLS, CALLS_BYTES = 50, 4 << 20


def parse_bytes(text: str) -> int:
    """Read "4MiB", "64KiB" or plain bytes; a whole number of float32."""
    for suffix, factor in UNITS.items():
        number = text[: len(text) - len(suffix)]
        if text.endswith(suffix) and number.isdigit():
            size_bytes = int(number) * factor
            if size_bytes > 0 and size_bytes % 4 == 0:
                return size_bytes
    raise argparse.ArgumentTypeError(f"{text!r}: expected e.g. 64KiB or 4MiB, a multiple of 4")


def parse_late(text: str) -> dict[str, float]:
    """Read "none", "1=0.3" or "1=0.3,5=1": which ranks are late by how many seconds."""
    if text == "none":
        return {}
    try:
        late = {str(int(rank)): float(delay) for rank, delay in _pairs(text)}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected none or RANK=SECONDS,...") from None
    if min(late.values()) < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: nobody can be early")
    return late


def _pairs(text: str) -> list[list[str]]:
    return [part.split("=") for part in text.split(",")]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.allreduce", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--network", default="200mbit", help="a rate, e.g. 200mbit, or shm")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8])
    parser.add_argument("--bytes", type=parse_bytes, nargs="+", default=[4 << 20])
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=["ring", "slt", "prr", "gloo"],
        choices=[*PATALLREDUCE, *RIVALS],
    )
    parser.add_argument(
        "--late",
        type=parse_late,
        nargs="+",
        default=[{}],
        metavar="PATTERN",
        help="arrival patterns: none, or RANK=SECONDS with commas between ranks",
    )
    parser.add_argument("--repeats", type=int, default=7, help="rounds; medians are reported")
    parser.add_argument("--out", type=Path, default=Path("out/allreduce"), help="folder")
    parser.add_argument("--timeout-s", type=float, default=1800.0, help="for each number of ranks")
    arguments = parser.parse_args()
    for late in arguments.late:
        if any(int(rank) not in range(min(arguments.ranks)) for rank in late):
            parser.error(f"--late names a rank that {min(arguments.ranks)} ranks do not have")
    if "openmpi" in arguments.algorithms and openmpi_missing():
        parser.error(f"openmpi is not installed: {openmpi_missing()} is missing")
    return arguments


def environment() -> dict[str, Any]:
    """Collect what a figure depends on besides the case itself."""
    return {
        "commit": _commit(),
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "patallreduce", "mpi4py", "libucx-cu13")},
    }


def _commit() -> str:
    describe = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(
            describe, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:  # no git on this machine
        return "unknown"
    return answer.stdout.strip() or "unknown"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def run_plan(
    plan: dict[str, Any], ranks: list[int], worker: str, timeout_s: float
) -> list[dict[str, Any]]:
    """Run the plan's cases for each number of ranks; return the records of plan["results"]."""
    results = Path(plan["results"])
    rate = "none" if plan["shared_memory"] else plan["network"]
    # Before the file is emptied: inside a user namespace the program starts again from the top.
    networks = (make_network(number, rate) for number in ranks)
    for index, network in enumerate(networks):
        if index == 0:
            results.write_text("", encoding="utf-8")
        with network:
            try:
                _measure(network, plan, worker, timeout_s)
            except (RankFailedError, RankTimeoutError) as error:
                raise SystemExit(str(error)) from None
    lines = results.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _measure(
    network: Network | Loopback, plan: dict[str, Any], worker: str, timeout_s: float
) -> None:
    command = [sys.executable, "-m", worker, json.dumps(plan)]
    if "openmpi" in plan["algorithms"]:
        run_openmpi(network, command, timeout_s=timeout_s, show="rank0")
    else:
        network.run(command, timeout_s=timeout_s, show="rank0")


def main() -> None:
    """Measure every case, then print the table and draw the picture."""
    arguments = parse_arguments()
    end_on_sigterm()
    shared_memory = arguments.network == SHARED_MEMORY
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = (arguments.out / "allreduce.jsonl").resolve()
    plan = {
        "algorithms": arguments.algorithms,
        "bytes": arguments.bytes,
        "late": arguments.late,
        "repeats": arguments.repeats,
        "calls": SHARED_MEMORY_CALLS if shared_memory else 1,
        "calls_bytes": CALLS_BYTES,
        "network": arguments.network,
        "shared_memory": shared_memory,
        "results": str(results),
        "environment": environment(),
    }
    records = run_plan(plan, arguments.ranks, "benchmarks.allreduce_worker", arguments.timeout_s)
    print_tables(records)
    picture = arguments.out / "allreduce.png"
    draw(records, picture)
    print(f"records: {results}\npicture: {picture.resolve()}")


if __name__ == "__main__":
    main()
