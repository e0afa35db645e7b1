"""Replays a trace through one predictor per rank, as the leader of a job would hold them.

A prediction is made at a *moment* of every iteration:

    0, 0.25, 0.5, 0.75   every rank's edges up to this fraction are known and nothing else: each
                         rank is asked at the time of its own edge, so its silence tells nothing
    "decision"           the leader's rule: all edges are in, or the first rank arrives, whichever
                         is earlier. Known is what has happened by then, and silence counts

Afterwards the iteration is shown whole, and learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patallreduce import _core

from . import FRACTIONS, Iteration

Moment = float | str
MOMENTS: list[Moment] = [0, *FRACTIONS, "decision"]
COMBINED = "combined"  # what predict() says
FURTHEST = "furthest behind"  # not a prediction of time: the latest edge of the moment's fraction


@dataclass(frozen=True)
class Replayed:
    """One iteration and what was said of it beforehand; lists by rank, seconds from the start."""

    iteration: Iteration
    said_s: dict[str, list[float]]  # by predictor; left out where a rank got no answer
    errors_s: list[float]  # what the combined prediction expects of itself
    now_s: float  # when the last rank was asked


def decision_s(iteration: Iteration) -> float:
    """When the leader decides."""
    return min(*iteration.arrivals_s, max(iteration.progress_s[max(FRACTIONS)]))


def replay(iterations: Sequence[Iteration], moment: Moment) -> Iterator[Replayed]:
    """Predict every iteration in turn at `moment`, from those before it."""
    ranks = len(iterations[0].arrivals_s)
    job = _core.Job(ranks)
    predictors = [_core.Predictor(job) for _ in range(ranks)]
    for iteration in iterations:
        asked_s = [_ask(p, rank, iteration, moment) for rank, p in enumerate(predictors)]
        predicted = [p.predict(0, now_s) for p, now_s in zip(predictors, asked_s, strict=True)]
        components = [p.components(0, now_s) for p, now_s in zip(predictors, asked_s, strict=True)]
        said_s = {
            name: [of_rank[name] for of_rank in components]
            for name in _core.component_names()
            if all(name in of_rank for of_rank in components)
        }
        if all(prediction.known for prediction in predicted):
            said_s[COMBINED] = [prediction.arrival_s for prediction in predicted]
        if moment in FRACTIONS:
            said_s[FURTHEST] = iteration.progress_s[float(moment)]
        yield Replayed(iteration, said_s, [p.error_s for p in predicted], max(asked_s))
        for rank, predictor in enumerate(predictors):
            for fraction in FRACTIONS:
                predictor.edge(fraction, iteration.progress_s[fraction][rank])
            predictor.finish([iteration.arrivals_s[rank]])


def _ask(predictor: _core.Predictor, rank: int, iteration: Iteration, moment: Moment) -> float:
    """Feed what is known of a rank at the moment; return the time at which it is asked."""
    predictor.start(0.0)
    if moment == "decision":
        now_s = decision_s(iteration)
        for fraction in FRACTIONS:
            if iteration.progress_s[fraction][rank] <= now_s:
                predictor.edge(fraction, iteration.progress_s[fraction][rank])
        if iteration.arrivals_s[rank] <= now_s:
            predictor.arrive(0, iteration.arrivals_s[rank])
        return now_s
    asked_s = 0.0
    for fraction in FRACTIONS:
        if fraction <= float(moment):
            asked_s = iteration.progress_s[fraction][rank]
            predictor.edge(fraction, asked_s)
    return asked_s
