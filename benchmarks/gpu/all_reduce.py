"""All-reduce among ranks on one GPU: our schedules over NCCL's messages against ncclAllReduce.

    python -m benchmarks.gpu all-reduce --ranks 2 4 8 --late none 1=0.1 --out out/gpu

Same kind of communicator for both, same connections (sockets on the loopback device, see
benchmarks/lab/one_gpu.py), A B A B in turn, balanced and with a late rank. Writes one JSON line per
case to OUT/all_reduce.jsonl and a picture to OUT/all_reduce.png, and prints nccl-tests' columns.
The ranks themselves run worker.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from typing import Any

import torch

import patallreduce as pat
from benchmarks.lab import RankFailedError, RankTimeoutError
from benchmarks.lab.arguments import add_late, add_out, parse_bytes
from benchmarks.lab.environment import environment
from benchmarks.lab.one_gpu import MPS_CONTROL, OneGpu
from benchmarks.lab.plan import end_on_sigterm, fresh_starts, read_records

from .report import draw, print_report
from .rivals import THEIRS
from .worker import DTYPES

WORKER = "benchmarks.gpu.worker"


def parse_algorithm(text: str) -> str:
    """Read "nccl", "ring" or "slt:32"."""
    name, colon, segments = text.partition(":")
    if text == THEIRS:
        return text
    if name not in pat.algorithms():
        known = ", ".join([THEIRS, *pat.algorithms()])
        raise argparse.ArgumentTypeError(f"{name!r}: expected one of {known}")
    if colon and not (segments.isdigit() and int(segments) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME or NAME:SEGMENTS")
    return text


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Describe what can be chosen."""
    command.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    command.add_argument("--bytes", type=parse_bytes, nargs="+", default=[1 << 20, 16 << 20])
    command.add_argument(
        "--algorithms",
        type=parse_algorithm,
        nargs="+",
        default=["ring", "slt:32", "prr:32", "rabenseifner", THEIRS],
        metavar="NAME[:SEGMENTS]",
    )
    add_late(command, [{}, {"1": 0.1}])
    command.add_argument(
        "--transport",
        choices=["nccl", "ucx", "staged"],
        default="nccl",
        help="what carries our schedules; see docs/gpu.md",
    )
    command.add_argument("--dtype", choices=DTYPES, default="float32")
    command.add_argument("--repeats", type=int, default=7, help="rounds; medians are reported")
    command.add_argument("--calls", type=int, default=5, help="back to back, if all are balanced")
    command.add_argument(
        "--delay-by",
        choices=["kernel", "host"],
        default="kernel",
        help="what makes a rank late: a kernel that spins on its stream, in turns with the other "
        "ranks' kernels, or the host, which leaves the GPU to them",
    )
    command.add_argument(
        "--mps",
        action="store_true",
        help="start an MPS server for the ranks: their kernels run side by side, not in turns",
    )
    command.add_argument("--no-transfer", action="store_true", help="leave M*beta out")
    add_out(command, "out/gpu", 300.0)
    command.add_argument(
        "--rehearse",
        action="store_true",
        help="without a GPU: UCX and Gloo on the processor; figures mean nothing",
    )
    command.set_defaults(run=all_reduce)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot run; SystemExit says why."""
    fewest = min(options.ranks)
    if fewest < 2:
        raise SystemExit(f"benchmarks.gpu all-reduce: expected 2 ranks or more, got {fewest}")
    if any(int(rank) not in range(fewest) for late in options.late for rank in late):
        raise SystemExit(f"--late names a rank that {fewest} ranks do not have")
    if options.mps and shutil.which(MPS_CONTROL) is None:
        raise SystemExit(f"--mps: no {MPS_CONTROL} on this machine")
    if not options.rehearse and not torch.cuda.is_available():
        raise SystemExit(f"benchmarks.gpu needs a GPU: torch {torch.__version__} sees none")


def run_ranks(options: argparse.Namespace, plan: dict[str, Any]) -> list[str]:
    """Measure for each number of ranks; what went wrong, by number."""
    failures = []
    for ranks in options.ranks:
        command = [sys.executable, "-m", WORKER, json.dumps(plan)]
        try:
            with OneGpu(ranks, mps=options.mps) as gpu, fresh_starts(plan):
                gpu.run(command, timeout_s=options.timeout_s, show="rank0")
        except (RankFailedError, RankTimeoutError) as error:
            failures.append(f"{ranks} ranks: {error}")
            print(failures[-1], flush=True)
    return failures


def all_reduce(options: argparse.Namespace) -> None:
    """Measure every case, then print the tables and draw the picture."""
    check(options)
    end_on_sigterm()
    options.out.mkdir(parents=True, exist_ok=True)
    results = (options.out / "all_reduce.jsonl").resolve()
    results.write_text("", encoding="utf-8")
    plan = {
        "algorithms": options.algorithms,
        "bytes": options.bytes,
        "late": options.late,
        "dtype": options.dtype,
        "repeats": options.repeats,
        "calls": options.calls,
        "delay_by": options.delay_by,
        "transfer": not options.no_transfer,
        "rehearse": options.rehearse,
        "transport": "ucx" if options.rehearse else options.transport,
        "mps": options.mps,
        "results": str(results),
        "environment": environment(),
    }
    failures = run_ranks(options, plan)
    records = read_records(results)
    if records:
        print_report(records)
        draw(records, options.out / "all_reduce.png")
    print(f"records: {results}")
    wrong = sum(record["wrong"] for record in records)
    if failures or wrong:
        raise SystemExit(
            f"{len(failures)} of {len(options.ranks)} runs failed; {wrong} wrong elements"
        )
