"""Iterations made up: simple ones whose every measure is known, and arbitrary ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from patallreduce.records.iterations import BucketRecord, EdgeRecord, Iteration

TIMES = st.one_of(st.just(math.nan), st.floats(-1e6, 1e6))


@st.composite
def iterations(draw):
    ranks = draw(st.integers(1, 5))
    times = st.tuples(*[TIMES] * ranks)
    bucket = st.builds(
        BucketRecord,
        index=st.integers(0, 9),
        elements=st.integers(0, 10**9),
        algorithm=st.sampled_from(["ring", "slt", "NaN"]),
        segments=st.integers(1, 999),
        predicted_s=times,
        arrival_s=times,
        finish_s=times,
        planned=st.booleans(),
    )
    edge = st.builds(EdgeRecord, fraction=st.floats(0, 1), at_s=times)
    return draw(
        st.builds(
            Iteration,
            model=st.integers(0, 3),
            iteration=st.integers(0, 10**6),
            start_s=times,
            decided_s=TIMES,
            edges=st.integers(0, 99),
            finish_s=times,
            buckets=st.lists(bucket, max_size=3).map(tuple),
            progress=st.lists(edge, max_size=3).map(tuple),
            host=st.dictionaries(st.sampled_from(["waited", "stolen"]), times),
        )
    )


def make_iteration(
    number: int = 0,
    arrivals_s: Sequence[float] = (2.0, 5.0),
    *,
    at_s: float = 0.0,
    start_s: Sequence[float] | None = None,
    predicted_s: Sequence[float] | None = None,
    communication_s: float = 1.0,
    model: int = 0,
) -> Iteration:
    """All ranks start at `at_s`, one bucket; everybody has it `communication_s` after the last."""
    ranks = len(arrivals_s)
    arrival_s = tuple(at_s + time_s for time_s in arrivals_s)
    predicted = (math.nan,) * ranks
    if predicted_s is not None:
        predicted = tuple(at_s + time_s for time_s in predicted_s)
    finish_s = (max(arrival_s, default=0.0) + communication_s,) * ranks
    bucket = BucketRecord(0, 100, "slt", 8, predicted, arrival_s, finish_s, True)
    starts_s = tuple(start_s) if start_s is not None else (at_s,) * ranks
    return Iteration(model, number, starts_s, at_s + 0.5, 2, finish_s, (bucket,))
