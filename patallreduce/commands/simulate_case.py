"""The case that `python -m patallreduce simulate` was asked for: a bucket, a network, arrivals."""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import groupby

from patallreduce.pricing.bucket import WITHIN_NODE, Bucket
from patallreduce.pricing.link import Link
from patallreduce.pricing.pattern_text import Pattern
from patallreduce.text.units import bytes_text, rate_text


def bucket_of(options: argparse.Namespace, ranks: int, message_bytes: int) -> Bucket:
    """Make the bucket that was asked for; ValueError for ranks, nodes and ports that do not fit."""
    if ranks < 1:
        raise ValueError(f"--ranks: expected a number >= 1, got {ranks}")
    ports = options.ports or []
    link = Link(
        options.latency_us * 1e-6,
        options.link,
        options.reduce,
        port_share=options.port_share,
        change_share=options.change_share,
        ports=tuple(port / min(ports) for port in ports),
        partners=options.partners,
        burst_bytes=options.burst,
        processors=options.processors,
    )
    return Bucket(
        ranks,
        message_bytes,
        link,
        options.segments,
        not options.unforeseen,
        options.ranks_per_node,
        replace(WITHIN_NODE, bytes_per_s=options.within_node),
    )


def draws(options: argparse.Namespace, ranks: int, count: int) -> list[list[float]]:
    """When ranks arrive, in each of so many draws; ValueError for a late rank there is not."""
    if options.late:
        arrivals_s = [0.0] * ranks
        for rank, delay_s in options.late:
            if rank >= ranks:
                raise ValueError(f"--late: expected ranks 0 to {ranks - 1}, got {rank}")
            arrivals_s[rank] = delay_s
        return [arrivals_s]
    pattern: Pattern = options.pattern or Pattern("balanced")
    return pattern.draws(ranks, count, options.seed)


def about(bucket: Bucket, options: argparse.Namespace, what: str) -> str:
    """Say in a line of what the figures are."""
    if options.late:
        arrivals = ", ".join(f"rank {rank} {delay_s:g} s late" for rank, delay_s in options.late)
    else:
        arrivals = str(options.pattern or "all arrive together")
    return (
        f"{what}: {bucket.ranks} ranks, {bytes_text(bucket.message_bytes)}, "
        f"{network_text(bucket)}; {arrivals}{foresight(options)}"
    )


def foresight(options: argparse.Namespace) -> str:
    """Whether schedules were made without knowing the arrivals."""
    return ", unforeseen" if options.unforeseen else ""


def network_text(bucket: Bucket) -> str:
    """Say how many nodes there are, how fast their ports, how long the way."""
    link = bucket.link
    rates = [link.bytes_per_s * port for port in link.ports or [1.0]]
    runs = [(rate_text(rate), len(list(run))) for rate, run in groupby(rates)]
    ports = ", ".join(f"{count} x {text}" if link.ports else text for text, count in runs)
    nodes = f"{bucket.nodes} nodes, " if bucket.node_of else ""
    partners = f" ({link.partners:g} partners fill a port)" if link.partners > 1 else ""
    burst = f", {link.burst_bytes / 1024:.3g} KiB at once" if link.burst_bytes else ""
    processors = f", processors: {link.processors}" if link.processors else ""
    return f"{nodes}{ports}{processors}{partners}{burst}, {link.latency_s * 1e6:g} us"
