"""What several benchmarks ask on their command lines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from .openmpi import openmpi_missing

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "B": 1, "": 1}


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """Start the parser of `python -m benchmarks.NAME`; the description is the module's own."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_network(parser: argparse.ArgumentParser) -> None:
    """Ask where the ranks are and how large their message is."""
    parser.add_argument(
        "--network",
        default="200mbit",
        help="200mbit, a port's rate; 200mbit/4, shared by 4 ranks; 200mbit@25ms, latency; shm",
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[8])
    parser.add_argument("--bytes", type=parse_bytes, nargs="+", default=[4 << 20])


def add_out(parser: argparse.ArgumentParser, out: str, timeout_s: float) -> None:
    """Ask for the folder of the results, and how long the ranks of one network may take."""
    parser.add_argument("--out", type=Path, default=Path(out), help="folder")
    parser.add_argument("--timeout-s", type=float, default=timeout_s, help="for each network")


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
        pairs = [part.split("=") for part in text.split(",")]
        late = {str(int(rank)): float(delay) for rank, delay in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected none or RANK=SECONDS,...") from None
    if min(late.values()) < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: nobody can be early")
    return late


def add_late(parser: argparse.ArgumentParser, default: list[dict[str, float]]) -> None:
    """Ask for patterns of arrivals."""
    parser.add_argument(
        "--late",
        type=parse_late,
        nargs="+",
        default=default,
        metavar="PATTERN",
        help="arrival patterns: none, or RANK=SECONDS with commas between ranks",
    )


def one_for_each(
    parser: argparse.ArgumentParser, iterations: list[int], cases: Sequence[object], case: str
) -> list[int]:
    """Return a number of iterations for every case; one number is for all of them."""
    if len(iterations) not in {1, len(cases)}:
        parser.error(
            f"--iterations: expected 1 or {len(cases)} numbers, one for each {case}, "
            f"got {len(iterations)}"
        )
    return iterations * len(cases) if len(iterations) == 1 else iterations


def check_installed(parser: argparse.ArgumentParser, algorithms: Sequence[str]) -> None:
    """Refuse the rival that this machine does not have."""
    if "openmpi" in algorithms and openmpi_missing():
        parser.error(f"openmpi is not installed: {openmpi_missing()} is missing")
