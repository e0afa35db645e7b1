"""`python -m patallreduce tune`: measure which algorithm is fastest here, and keep it for jobs."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch.distributed as dist

from patallreduce._core import TransportError
from patallreduce.commands import Commands
from patallreduce.communicator.communicator import Communicator
from patallreduce.decisions.nccl import nccl_csv
from patallreduce.decisions.open_mpi import read_open_mpi
from patallreduce.decisions.rules import FileRule, Range, TuningFile, load
from patallreduce.decisions.times import Case, Times, read_times
from patallreduce.text.table import text_table
from patallreduce.text.units import bytes_text, ms_text, parse_bytes
from patallreduce.tuning.measuring import COLLECTIVES
from patallreduce.tuning.session import Journal, cases_of, file_of, machine_of, tune

_SIZES = [1 << power for power in range(12, 25)]


def add(commands: Commands) -> None:
    """Add the command to the command line; it returns what is to be printed."""
    parser = commands.add_parser(
        "tune",
        help="measure which algorithm is fastest on these ranks, for auto to go by",
        description="Start it as a job is started: torchrun --nnodes 2 --nproc-per-node 4 "
        "-m patallreduce tune. Jobs use the file where PATALLREDUCE_TUNING_FILE names it.",
    )
    parser.add_argument("--budget", type=float, default=60, metavar="S", help="seconds (60)")
    parser.add_argument(
        "--out", type=Path, default=Path("tuning.json"), help="the tuning file (%(default)s)"
    )
    parser.add_argument(
        "--times",
        type=Path,
        help="what is measured, as JSON lines, gone on with if it is there (OUT with .jsonl); "
        "with --show or --from: for what else was measured",
    )
    parser.add_argument(
        "--collectives", nargs="+", default=["all_reduce"], choices=COLLECTIVES, help="all_reduce"
    )
    parser.add_argument(
        "--bytes", nargs="+", type=parse_bytes,
        help="of the whole tensor (every power of two from 4KiB to 16MiB); with --show or --from: "
        "print what such calls take, and why",
    )  # fmt: skip
    shown_files = parser.add_mutually_exclusive_group()
    shown_files.add_argument(
        "--show", type=Path, metavar="FILE", help="print a tuning file's rules, measure nothing"
    )
    shown_files.add_argument(
        "--from",
        dest="open_mpi",
        type=Path,
        metavar="FILE",
        help="print Open MPI's dynamic rules (its classic format, or JSON) the same way",
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="CSV",
        help="write the rules, as far as NCCL can go by them, for its example tuner plugin",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Measure, or show; the text is what to print, "" but on rank 0."""
    if options.show or options.open_mpi:
        times = None if options.times is None else read_times(options.times)[1]
        file = load(options.show) if options.show else read_open_mpi(options.open_mpi)
        return "\n".join([shown(file, times, options.bytes), *_written(file, options.to)])
    if not 0 < options.budget < math.inf:
        raise ValueError(f"--budget: expected seconds > 0, got {options.budget}")
    if "RANK" not in os.environ:
        raise ValueError(
            "expected RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment, as of a "
            "job: torchrun --nproc-per-node 4 -m patallreduce tune"
        )
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise ValueError("expected 2 ranks or more, got 1, which has nobody to send to")
    dist.init_process_group("gloo")
    try:
        with Communicator(monitor=False) as comm:
            return _tuned(comm, options)
    except TransportError as error:  # what ended another rank has been said there
        raise OSError(str(error)) from None
    finally:
        dist.destroy_process_group()


def _tuned(comm: Communicator, options: argparse.Namespace) -> str:
    machine = machine_of(comm)
    path = options.times or options.out.with_suffix(".jsonl")
    journal = Journal(path, machine) if comm.rank == 0 else None
    cases = cases_of(comm, options.collectives, sorted(set(options.bytes or _SIZES)))
    tune(comm, cases, options.budget, journal, lambda line: print(line, file=sys.stderr))
    if journal is None:
        return ""
    file = file_of(comm, cases, journal.times, machine)
    file.save(options.out)
    return "\n".join([shown(file, journal.times), str(options.out), *_written(file, options.to)])


def _written(file: TuningFile, to: Path | None) -> list[str]:
    if to is None:
        return []
    text, left = nccl_csv(file)
    to.write_text(text, encoding="utf-8")
    told = f"{to}: {len(file.rules) - len(left)} of {len(file.rules)} rules"
    names = ", ".join(sorted({rule.method.algorithm for rule in left if not rule.beside_others}))
    return [f"{told}; NCCL has no {names}" if names else told]


def shown(file: TuningFile, times: Times | None = None, sizes: Sequence[int] | None = None) -> str:
    """The rules as a table, and beside each, where times are at hand, what was measured for it.

    Args:
        file: Whose they are.
        times: What was measured.
        sizes: Only what counts for calls of so many bytes. None: all rules.
    """
    asked: list[tuple[FileRule, int | None]] = [(rule, None) for rule in file.rules]
    if sizes is not None:
        asked = [(rule, size) for size in sizes for rule in _counting(file, size)]
    rows = [
        [
            rule.collective,
            _range(rule.ranks),
            _range(rule.nodes),
            "several" if rule.beside_others else "one",
            _sizes(rule.message_bytes) if size is None else bytes_text(size),
            str(rule.method.algorithm),
            bytes_text(rule.method.segment_bytes) if rule.method.segment_bytes else "own",
            _why(rule, times, size),
        ]
        for rule, size in asked
    ]
    headings = [
        "collective", "ranks", "nodes", "in flight", "bytes", "algorithm", "segments", "measured",
    ]  # fmt: skip
    return text_table(headings, rows, left=(0, 4, 5, 7))


# The first that matches, of each kind of call.
def _counting(file: TuningFile, size: int) -> Iterable[FileRule]:
    found: dict[tuple[object, ...], FileRule] = {}
    for rule in file.rules:
        if rule.message_bytes[0] <= size <= rule.message_bytes[1]:
            kind = (rule.collective, rule.ranks, rule.nodes, rule.beside_others)
            found.setdefault(kind, rule)
    return found.values()


# The case of about that size, or in the middle of the rule: its method, and the fastest other one.
def _why(rule: FileRule, times: Times | None, size: int | None) -> str:
    if not rule.measured:
        return "not: by the model"
    cases = [case for case in times.cases() if _is_for(rule, case)] if times else []
    if times is None or not cases:
        return ""
    case = cases[len(cases) // 2]
    if size is not None:
        case = min(cases, key=lambda case: abs(math.log((case.message_bytes + 1) / (size + 1))))
    means_s = times.means_s(case)
    if rule.method not in means_s:
        return ""
    others = {str(method): s for method, s in means_s.items() if method != rule.method}
    told = f"{bytes_text(case.message_bytes)}: {ms_text(means_s[rule.method])} ms"
    if not others:
        return told
    name = min(others, key=others.__getitem__)
    return f"{told}; {name} {ms_text(others[name])}"


def _is_for(rule: FileRule, case: Case) -> bool:
    first, last = rule.message_bytes
    return first <= case.message_bytes <= last and rule.matches(
        case.collective, case.ranks, case.nodes, beside_others=case.beside_others
    )


def _range(of: Range) -> str:
    first, last = of
    if first == last:
        return f"{first:g}"
    return f"{first:g} to {last:g}" if last < math.inf else f"from {first:g}"


def _sizes(of: Range) -> str:
    first, last = of
    if last == math.inf:
        return f"from {bytes_text(int(first))}"
    return f"up to {bytes_text(int(last))}" if first == 0 else (
        f"{bytes_text(int(first))} to {bytes_text(int(last))}"
    )  # fmt: skip
