"""`python -m patallreduce schedule`: print an algorithm's schedule as the papers print theirs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from patallreduce import _core
from patallreduce._core import ScheduleError
from patallreduce.schedules import schedule

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add(commands: Commands) -> None:
    """Add the command to the command line; it returns what is to be printed."""
    about = "print a schedule: what every rank receives and sends, round by round"
    parser = commands.add_parser("schedule", help=about, description=about)
    parser.add_argument("algorithm", help="of any collective")
    parser.add_argument("--ranks", type=int, default=4, help="default 4")
    parser.add_argument("--segments", type=int, help="default: as many as ranks")
    parser.add_argument("--root", type=int, default=0, help="default 0")
    parser.add_argument(
        "--arrivals", type=float, nargs="+", metavar="SECONDS", help="default: all together"
    )
    parser.add_argument(
        "--segment-time",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="prr's tau, clairvoyant's round; default 0",
    )
    parser.add_argument("--listing", action="store_true", help="a line per step, numbered")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Make the schedule that was asked for; the text is what to print."""
    made = schedule(
        options.algorithm,
        options.ranks,
        options.segments,
        options.arrivals,
        collective=_collective_of(options.algorithm),
        root=options.root,
        segment_time_s=options.segment_time,
    )
    return made.listing() if options.listing else str(made)


def _collective_of(algorithm: str) -> str:
    collectives = {name: collective for name, collective, _, _ in _core.algorithms()}
    if algorithm not in collectives:
        raise ScheduleError(
            f"unknown algorithm {algorithm!r}; known: {', '.join(sorted(collectives))}"
        )
    return collectives[algorithm]
