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
from patallreduce.pricing import decision_map
from patallreduce.pricing.comparison import Bucket, Price, compare, make_schedule, price
from patallreduce.pricing.link import Link
from patallreduce.pricing.messages import simulated_messages
from patallreduce.pricing.pattern_text import Pattern, parse_pattern
from patallreduce.pricing.simulation import simulate
from patallreduce.text.table import text_table
from patallreduce.text.units import bytes_text, ms_text, parse_bytes

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
    bucket = Bucket(
        _one("--ranks", options.ranks, 8),
        _one("--bytes", options.bytes, 4 << 20),
        _link(options),
        options.segments,
        not options.unforeseen,
    )
    if options.delays:
        raise ValueError("--delays: only a sweep has several; give --late or --pattern")
    return _compare(options, bucket) if options.compare else _single(options, bucket)


def _single(options: argparse.Namespace, bucket: Bucket) -> str:
    arrivals_s = _draws(options, bucket.ranks, count=1)[0]
    made = make_schedule(options.algorithm, bucket, arrivals_s)
    found = price(options.algorithm, bucket, [arrivals_s])
    lines = [_about(bucket, options, f"{options.algorithm}, {found.segments} segments")]
    if options.steps:
        lines += ["", str(made)]
    lines += [
        "",
        text_table(["measure", "ms", "what it is"], _rows(found, arrivals_s), left=(0, 2)),
    ]
    if options.plot:
        from patallreduce.pictures.gantt import gantt

        messages = simulated_messages(made, bucket.link, bucket.message_bytes, arrivals_s)
        if len(messages) > _MOST_DRAWN:
            raise ValueError(
                f"--plot: expected at most {_MOST_DRAWN} messages to draw, got {len(messages)}; "
                "take fewer ranks or segments"
            )
        finish_s = simulate(made, bucket.link, bucket.message_bytes, arrivals_s).finish_s
        gantt(
            messages,
            arrivals_s,
            finish_s,
            options.plot,
            segments=made.segments,
            title=lines[0],
            colour_by=options.colours,
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
    draws = _draws(options, bucket.ranks, options.draws)
    prices, refusals = compare(bucket, draws, by=options.by)
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
    of = f", medians of {len(draws)} draws" if len(draws) > 1 else ""
    lines = [
        _about(bucket, options, "all algorithms"),
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
    link = _link(options)
    bucket = Bucket(1, 0, link, options.segments, not options.unforeseen)
    cells = list(
        decision_map.sweep(
            bucket,
            pattern,
            options.ranks or SWEPT_RANKS,
            options.bytes or list(map(parse_bytes, SWEPT_BYTES)),
            options.delays or list(map(decision_map.parse_delay, SWEPT_DELAYS)),
            by=options.by,
            draws=options.draws,
            seed=options.seed,
        )
    )
    title = f"{pattern.name}, {_link_text(link)}, by {options.by}{_foresight(options)}"
    lines = [title, "", decision_map.map_tables(cells)]
    if any(cell.delay.in_transfers for cell in cells):
        lines += ["", "delay: x times one transfer of the whole message; otherwise seconds"]
    if options.plot:
        from patallreduce.pictures.decision_map import decision_map as draw

        draw(cells, options.plot, title=title)
        lines += ["", str(options.plot)]
    return "\n".join(lines)


def _draws(options: argparse.Namespace, ranks: int, count: int) -> list[list[float]]:
    if ranks < 1:
        raise ValueError(f"--ranks: expected a number >= 1, got {ranks}")
    if options.late:
        arrivals_s = [0.0] * ranks
        for rank, delay_s in options.late:
            if rank >= ranks:
                raise ValueError(f"--late: expected ranks 0 to {ranks - 1}, got {rank}")
            arrivals_s[rank] = delay_s
        return [arrivals_s]
    pattern: Pattern = options.pattern or Pattern("balanced")
    return pattern.draws(ranks, count, options.seed)


def _about(bucket: Bucket, options: argparse.Namespace, what: str) -> str:
    if options.late:
        arrivals = ", ".join(f"rank {rank} {delay_s:g} s late" for rank, delay_s in options.late)
    else:
        arrivals = str(options.pattern or "all arrive together")
    return (
        f"{what}: {bucket.ranks} ranks, {bytes_text(bucket.message_bytes)}, "
        f"{_link_text(bucket.link)}; {arrivals}{_foresight(options)}"
    )


def _foresight(options: argparse.Namespace) -> str:
    return ", unforeseen" if options.unforeseen else ""


def _link_text(link: Link) -> str:
    bits_per_s = 8 * link.bytes_per_s
    rate = f"{bits_per_s / 1e9:g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:g} Mbit/s"
    return f"{rate}, {link.latency_s * 1e6:g} us"


def _link(options: argparse.Namespace) -> Link:
    return Link(
        options.latency_us * 1e-6,
        options.link,
        options.reduce,
        port_share=options.port_share,
    )


def _one(name: str, values: list[_T] | None, default: _T) -> _T:
    if values is None:
        return default
    if len(values) != 1:
        raise ValueError(f"{name}: expected one, got {len(values)}; only a sweep takes several")
    return values[0]
