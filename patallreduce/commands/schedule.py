"""`python -m patallreduce schedule`: print an algorithm's schedule as the papers print theirs.

Or, with --streams, what the ranks queue on streams of their GPUs, which --out draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from patallreduce import _core
from patallreduce._core import Schedule, ScheduleError, StreamProgram
from patallreduce.commands import Commands
from patallreduce.pricing.schedules import schedule

_SUMS_FASTER = 4  # than messages, in pictures: enough to see both


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
        help="prr's tau, clairvoyant's round, a segment's time in --out; default 0, in --out 1 s "
        "for all segments together",
    )
    parser.add_argument(
        "--nodes", type=int, nargs="+", metavar="NODE", help="of each rank; default: one for each"
    )
    parser.add_argument(
        "--ports",
        type=float,
        nargs="+",
        metavar="BANDWIDTH",
        help="of each rank's port, in any unit; default: all alike",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--listing", action="store_true", help="a line per step, numbered")
    shown.add_argument(
        "--streams", action="store_true", help="as groups and sums on streams of a GPU"
    )
    parser.add_argument("--rank", type=int, metavar="R", help="--streams: of this rank alone")
    parser.add_argument(
        "--lanes",
        type=int,
        metavar="N",
        help="--streams: streams for messages; default as on a GPU: one, or with --arrivals two, "
        "for an odd number of ranks three",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="--streams: draw what runs when, as a simple model has it"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Make the schedule that was asked for; the text is what to print."""
    if not options.streams and (options.rank is not None or options.lanes or options.out):
        raise ValueError("--rank, --lanes and --out: only with --streams")
    made = schedule(
        options.algorithm,
        options.ranks,
        options.segments,
        options.arrivals,
        collective=_collective_of(options.algorithm),
        root=options.root,
        segment_time_s=options.segment_time,
        nodes=options.nodes,
        ports=options.ports,
    )
    if options.streams:
        return _streams(made, options)
    return made.listing() if options.listing else str(made)


def _streams(made: Schedule, options: argparse.Namespace) -> str:
    from patallreduce.gpu.tables import stream_tables

    # As a communicator makes them for a sum.
    early = options.arrivals is not None
    lanes = options.lanes or (_core.lanes_for(made.ranks) if early else 1)
    regions = max(2, made.segments) if lanes > 1 else 2
    programs = [
        StreamProgram(made, rank, lanes=lanes, regions=regions, early_out=early)
        for rank in range(made.ranks)
    ]
    if options.rank is not None and not 0 <= options.rank < made.ranks:
        raise ValueError(f"--rank: expected one of 0..{made.ranks - 1}, got {options.rank}")
    shown = range(made.ranks) if options.rank is None else [options.rank]
    about = f"{options.algorithm}, {made.ranks} ranks, {made.segments} segments"
    if options.out:
        _draw(made, programs, shown, about, options)
    streams = f"{lanes} streams of messages and one of sums" if lanes > 1 else "two streams"
    out = "; early out, for the arrivals are known" if early else ""
    return f"{about}: on {streams} of each GPU{out}\n\n" + stream_tables(
        [programs[rank] for rank in shown]
    )


def _draw(
    made: Schedule,
    programs: Sequence[StreamProgram],
    shown: Sequence[int],
    about: str,
    options: argparse.Namespace,
) -> None:
    from patallreduce.gpu.stages import results_of, stages_of
    from patallreduce.gpu.times import stream_times
    from patallreduce.pictures.streams import Drawn, stream_picture

    segment_s = options.segment_time or 1.0 / made.segments
    arrivals_s = options.arrivals or [0.0] * len(programs)
    # Hosts run ahead of their GPUs: everything is queued a little before the first arrival.
    queued_s = min(arrivals_s) - segment_s
    stages = [stages_of(program) for program in programs]
    times = stream_times(
        stages,
        [results_of(program) for program in programs],
        arrivals_s,
        queued_s=queued_s,
        segment_s=segment_s,
        sum_s=segment_s / _SUMS_FASTER,
    )
    lanes = programs[0].lanes
    drawn = [Drawn(rank, stages[rank], times[rank], arrivals_s[rank], lanes) for rank in shown]
    stream_picture(
        drawn,
        options.out,
        queued_s=queued_s,
        title=f"{about}: what runs on which stream (0 to 1: segment 0 to rank 1)",
    )


def _collective_of(algorithm: str) -> str:
    collectives = {each.name: each.collective for each in _core.algorithms()}
    if algorithm not in collectives:
        raise ScheduleError(
            f"unknown algorithm {algorithm!r}; known: {', '.join(sorted(collectives))}"
        )
    return collectives[algorithm]
