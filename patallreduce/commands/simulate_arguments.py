"""The arguments of `python -m patallreduce simulate`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from patallreduce.pricing import decision_map
from patallreduce.pricing.comparison import MEASURES
from patallreduce.pricing.pattern_text import parse_pattern
from patallreduce.text.units import parse_bytes, parse_rate

_T = TypeVar("_T")

SWEPT_RANKS = [4, 8, 16]
SWEPT_BYTES = ["1KiB", "16KiB", "256KiB", "1MiB", "4MiB", "64MiB"]
SWEPT_DELAYS = ["0x", "0.25x", "0.5x", "1x", "2x", "4x"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to the command's parser."""
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--compare", action="store_true", help="rank all algorithms")
    mode.add_argument("--sweep", action="store_true", help="ranks x bytes x delay: who wins?")

    case = parser.add_argument_group("the case")
    case.add_argument("--algorithm", default="slt", help="default slt")
    case.add_argument(
        "--ranks", type=int, nargs="+", help=f"default 8; of a sweep {_words(SWEPT_RANKS)}"
    )
    case.add_argument(
        "--bytes",
        type=_read(parse_bytes),
        nargs="+",
        help=f"of the bucket; default 4MiB; of a sweep {_words(SWEPT_BYTES)}",
    )
    case.add_argument("--segments", type=int, help="default: what the package would choose")
    case.add_argument(
        "--link",
        type=_read(parse_rate),
        default="200mbit",
        help="between two ranks: of every port, or of the narrowest (default 200mbit)",
    )
    case.add_argument(
        "--partners",
        type=float,
        default=1.0,
        help="with how many other ranks at once a port is full (default 1)",
    )
    case.add_argument(
        "--burst",
        type=_read(parse_bytes),
        default=0,
        metavar="BYTES",
        help="what a port that has rested lets through at once (default 0)",
    )
    case.add_argument(
        "--processors",
        type=int,
        default=0,
        help="that all ranks share and that move messages, where no ports do (default 0: ports do)",
    )
    case.add_argument(
        "--ports",
        type=_read(_parse_port),
        nargs="+",
        help="bandwidth of each, in any unit: of the ranks', or of the nodes' (default: alike)",
    )
    case.add_argument(
        "--ranks-per-node",
        type=int,
        default=1,
        help="so many consecutive ranks share a port (default 1)",
    )
    case.add_argument(
        "--within-node",
        type=_read(parse_rate),
        default="20GB/s",
        help="of messages between ranks that share one (default 20GB/s)",
    )
    case.add_argument("--latency-us", type=float, default=20.0, help="default 20")
    case.add_argument("--reduce", type=_read(parse_rate), default="5GB/s", help="default 5GB/s")
    case.add_argument(
        "--port-share",
        type=float,
        default=0.25,
        help="of the latency that occupies a port, 0 to 1; 1: Hockney's model (default 0.25)",
    )
    case.add_argument(
        "--change-share",
        type=float,
        default=0.0,
        help="of the latency that a port needs besides to change partners, 0 to 1 (default 0)",
    )

    arrivals = parser.add_argument_group("arrivals (default: all together)")
    late = arrivals.add_mutually_exclusive_group()
    late.add_argument(
        "--late", type=_read(_parse_late), nargs="+", metavar="RANK=SECONDS", help="e.g. 1=0.3"
    )
    late.add_argument(
        "--pattern",
        type=_read(parse_pattern),
        help="one_late:0.3:1, alternating:0.1, uniform:0.1, normal:0.05, gamma:0.05:2, "
        "bernoulli:0.3:0.1 or trace:FILE; times in seconds",
    )
    arrivals.add_argument(
        "--draws",
        type=int,
        default=21,
        help="of a random pattern (default 21); without --compare and --sweep the first one",
    )
    arrivals.add_argument("--seed", type=int, default=0, help="of the draws")
    arrivals.add_argument(
        "--unforeseen", action="store_true", help="schedules are made for ranks that come together"
    )
    arrivals.add_argument(
        "--delays",
        type=_read(decision_map.parse_delay),
        nargs="+",
        help="of a sweep: the pattern's first parameter in seconds, or with x in transfers of the "
        f"message (default {_words(SWEPT_DELAYS)})",
    )

    shown = parser.add_argument_group("what is shown")
    shown.add_argument(
        "--by", choices=MEASURES, default="average", help="rank by this (default average elapsed)"
    )
    shown.add_argument("--plot", type=Path, metavar="FILE", help="png, svg or pdf")
    shown.add_argument("--colours", choices=["segment", "verb"], default="segment")
    shown.add_argument("--steps", action="store_true", help="print the schedule, too")


def _parse_late(text: str) -> tuple[int, float]:
    rank, _, delay = text.partition("=")
    try:
        late, delay_s = int(rank), float(delay)
    except ValueError:
        raise ValueError(f"{text!r}: expected RANK=SECONDS, e.g. 1=0.3") from None
    if late < 0 or not 0 <= delay_s < math.inf:
        raise ValueError(f"{text!r}: expected a rank >= 0 and seconds >= 0")
    return late, delay_s


def _parse_port(text: str) -> float:
    try:
        port = float(text)
    except ValueError:
        port = 0.0
    if not 0 < port < math.inf:
        raise ValueError(f"{text!r}: expected a bandwidth > 0 beside the others', e.g. 2")
    return port


def _read(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Let argparse say what is wrong, which it does for one type of error only."""

    def read(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _words(values: Sequence[object]) -> str:
    return " ".join(map(str, values))
