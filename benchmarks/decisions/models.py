"""Hockney, LogGP and PLogP with measured parameters, and what each would choose (chapter 4).

A step of a ring takes t(m); a further piece of m bytes in a stream, g(m).
Hockney: alpha + beta m, by least squares of relative errors. LogGP: G from the two largest steps, o
from a stream of small pieces, L from the smallest step. PLogP: g(m) = t(m) - L, point by point.

Source: TUNE07, sections 4.1 and 4.4 (parameters), 6.1 (decisions).
"""

from __future__ import annotations

import numpy

from benchmarks.lab.plan import Record
from patallreduce.pricing.link import Link
from patallreduce.pricing.models import LogGP, Model, PLogP
from patallreduce.pricing.schedules import schedule
from patallreduce.pricing.simulation import simulate

from .worker import PIECE_BYTES

LEAST_S = 1e-7


def models_of(record: Record) -> dict[str, Model]:
    """The models with the parameters of a worker's first record."""
    steps_s = {int(size): s for size, s in record["steps_s"].items()}
    sizes = sorted(steps_s)
    sums = record["reduce_bytes_per_s"]
    times_s = numpy.array([steps_s[size] for size in sizes])
    beta_s, alpha_s = numpy.polyfit(sizes, times_s, 1, w=1 / times_s)
    byte_s = max((times_s[-1] - times_s[-2]) / (sizes[-1] - sizes[-2]), 1e-12)
    gap_s = max(record["gap_s"], LEAST_S)
    overhead_s = max(gap_s - PIECE_BYTES * byte_s, LEAST_S)
    network_s = max(times_s[0] - 2 * overhead_s - sizes[0] * byte_s, LEAST_S)
    latency_s = max(times_s[0] - gap_s, LEAST_S)
    gaps = [max(steps_s[size] - latency_s, LEAST_S) for size in sizes]
    overheads = tuple((float(m), min(overhead_s, g)) for m, g in zip(sizes, gaps, strict=True))
    return {
        "Hockney": Link(max(float(alpha_s), LEAST_S), 1 / max(float(beta_s), 1e-12), sums),
        "LogGP": LogGP(network_s, overhead_s, 0.0, byte_s, sums),
        "PLogP": PLogP(
            latency_s,
            tuple((float(m), g) for m, g in zip(sizes, gaps, strict=True)),
            overheads,
            overheads,
            sums,
        ),
    }


def chosen_by(model: Model, record: Record) -> str:
    """Of the ways that were measured, the one that the model thinks fastest."""
    prices_s: dict[str, float] = {}
    for way in record["seconds"]:
        name, _, segments = way.rpartition("/")
        made = schedule(name, record["ranks"], int(segments), collective=record["collective"])
        prices_s[way] = max(simulate(made, model, record["message_bytes"]).finish_s)
    return min(prices_s, key=prices_s.__getitem__)
