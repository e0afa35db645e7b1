"""`python -m patallreduce simulate`: price schedules without running them, and draw them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar

from patallreduce.commands import Commands
from patallreduce.commands.simulate_arguments import (
    SWEPT_BYTES,
    SWEPT_DELAYS,
    SWEPT_RANKS,
    add_arguments,
)
from patallreduce.commands.simulate_case import about, bucket_of, draws, foresight, network_text
from patallreduce.pricing import decision_map
from patallreduce.pricing.bucket import Bucket, make_schedule
from patallreduce.pricing.comparison import Price, compare, price
from patallreduce.pricing.messages import simulated_messages
from patallreduce.pricing.pattern_text import parse_pattern
from patallreduce.pricing.simulation import simulate
from patallreduce.text.table import text_table
from patallreduce.text.units import ms_text, parse_bytes

_T = TypeVar("_T")

_MOST_DRAWN = 100_000  # messages: in a picture nobody can tell more of them apart


def add(commands: Commands) -> None:
    """Add the command to the command line; it returns what is to be printed."""
    parser = commands.add_parser(
        "simulate",
        help="price a schedule, rank all algorithms, or map where which one wins",
        description="Simulate an all-reduce. Without --compare and --sweep: one algorithm, whose "
        "schedule --plot draws.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Do what was asked for; the text is what to print."""
    if options.draws < 1:
        raise ValueError(f"--draws: expected a number >= 1, got {options.draws}")
    if options.sweep:
        return _sweep(options)
    bucket = bucket_of(
        options, _one("--ranks", options.ranks, 8), _one("--bytes", options.bytes, 4 << 20)
    )
    if options.delays:
        raise ValueError("--delays: only a sweep has several; give --late or --pattern")
    return _compare(options, bucket) if options.compare else _single(options, bucket)


def _single(options: argparse.Namespace, bucket: Bucket) -> str:
    arrivals_s = draws(options, bucket.ranks, count=1)[0]
    made = make_schedule(options.algorithm, bucket, arrivals_s)
    found = price(options.algorithm, bucket, [arrivals_s])
    lines = [about(bucket, options, f"{options.algorithm}, {found.segments} segments")]
    if options.steps:
        lines += ["", str(made)]
    lines += [
        "",
        text_table(["measure", "ms", "what it is"], _rows(found, arrivals_s), left=(0, 2)),
    ]
    if options.plot:
        from patallreduce.pictures.gantt import gantt

        network = bucket.network(options.algorithm)
        messages = simulated_messages(made, network, bucket.message_bytes, arrivals_s)
        if len(messages) > _MOST_DRAWN:
            raise ValueError(
                f"--plot: expected at most {_MOST_DRAWN} messages to draw, got {len(messages)}; "
                "take fewer ranks or segments"
            )
        finish_s = simulate(made, network, bucket.message_bytes, arrivals_s).finish_s
        gantt(
            messages,
            arrivals_s,
            finish_s,
            options.plot,
            segments=made.segments,
            title=lines[0],
            colour_by=options.colours,
            node_of=bucket.node_of,
        )
        lines += ["", str(options.plot)]
    return "\n".join(lines)


def _rows(found: Price, arrivals_s: Sequence[float]) -> list[list[str]]:
    late_by_s = max(arrivals_s) - min(arrivals_s)
    late = arrivals_s.index(max(arrivals_s))
    rows = [
        ["finish", ms_text(found.run_time_s), "run time: first arrival to last finish"],
        ["average elapsed", ms_text(found.average_elapsed_s), "mean of finish - arrival"],
        ["after", ms_text(found.after_last_arrival_s), "last arrival to last finish"],
    ]
    if late_by_s:
        rows += [
            ["late rank's own", ms_text(found.late_elapsed_s), f"finish - arrival of rank {late}"],
            ["imbalance", ms_text(late_by_s), "first arrival to last arrival"],
            [
                "absorbed",
                ms_text(found.absorption_s),
                f"of it: {found.absorption_s / late_by_s:.0%}; normalised absorption "
                f"{found.normalised_absorption:.2f}",
            ],
        ]
    return [*rows, ["balanced", ms_text(found.balanced_s), "run time if all arrive together"]]


def _compare(options: argparse.Namespace, bucket: Bucket) -> str:
    if options.plot:
        raise ValueError("--plot: draws one algorithm's schedule, or a sweep")
    every = draws(options, bucket.ranks, options.draws)
    prices, refusals = compare(bucket, every, by=options.by)
    headings = [
        "algorithm",
        "segments",
        "finish",
        "average\nelapsed",
        "after",
        "late rank's\nown",
        "absorbed",
        "balanced",
    ]
    rows = [
        [
            p.algorithm,
            str(p.segments),
            *map(
                ms_text,
                (
                    p.run_time_s,
                    p.average_elapsed_s,
                    p.after_last_arrival_s,
                    p.late_elapsed_s,
                    p.absorption_s,
                    p.balanced_s,
                ),
            ),
        ]
        for p in prices
    ]
    of = f", medians of {len(every)} draws" if len(every) > 1 else ""
    lines = [
        about(bucket, options, "all algorithms"),
        "",
        text_table(headings, rows, left=(0,)),
        f"ms{of}; by {options.by}, the cheapest first",
        *(f"{name} cannot: {why}" for name, why in refusals.items()),
    ]
    return "\n".join(lines)


def _sweep(options: argparse.Namespace) -> str:
    if options.late:
        raise ValueError("--sweep: give a --pattern, whose delay it replaces, instead of --late")
    pattern = options.pattern or parse_pattern("one_late:0:1")
    ranks = options.ranks or SWEPT_RANKS
    bucket = bucket_of(options, ranks[0], 0)
    cells = list(
        decision_map.sweep(
            bucket,
            pattern,
            ranks,
            options.bytes or list(map(parse_bytes, SWEPT_BYTES)),
            options.delays or list(map(decision_map.parse_delay, SWEPT_DELAYS)),
            by=options.by,
            draws=options.draws,
            seed=options.seed,
        )
    )
    title = f"{pattern.name}, {network_text(bucket)}, by {options.by}{foresight(options)}"
    lines = [title, "", decision_map.map_tables(cells)]
    if any(cell.delay.in_transfers for cell in cells):
        lines += ["", "delay: x times one transfer of the whole message; otherwise seconds"]
    if options.plot:
        from patallreduce.pictures.decision_map import decision_map as draw

        draw(cells, options.plot, title=title)
        lines += ["", str(options.plot)]
    return "\n".join(lines)


def _one(name: str, values: list[_T] | None, default: _T) -> _T:
    if values is None:
        return default
    if len(values) != 1:
        raise ValueError(f"{name}: expected one, got {len(values)}; only a sweep takes several")
    return values[0]
