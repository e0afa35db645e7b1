"""Iterations as a Chrome trace, to be opened at ui.perfetto.dev or chrome://tracing.

    process "rank 1"
      computation  |-- computation ---------|
      prediction                         ^ predicted arrival
      all-reduce                            |. waiting .|== communication ==|
      buckets              |-- bucket 0 ---------|
                               |-- bucket 1 --------------------------------|

An arrow leads from the computation of the last rank to each rank that waited for it. Times are
whole microseconds since the earliest one: finer ones would not survive the clocks' offsets, and
whole numbers cannot be rounded into overlaps, which the viewers do not show.

Source: Trace Event Format (Google, 2016).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patallreduce.records.activities import lanes
from patallreduce.records.iterations import BucketRecord, Iteration

Event = dict[str, Any]

# Rows of a process. Instants have a row of their own: in a row with intervals an arrow would end at
# an instant, not at the interval around it.
_COMPUTATION, _PREDICTION, _ALL_REDUCE, _BUCKETS = range(4)
# Perfetto finds the row to name by its thread number alone, so no two processes may share one; and
# thread 0 is the idle thread to it.
_ROWS_OF_A_RANK = 1000


def write_trace(path: str | Path, iterations: Sequence[Iteration]) -> None:
    """Write iterations as a Chrome trace: a process per rank; unknown times are left out.

    Args:
        path: Written as JSON; about 1 KB per rank and iteration.
        iterations: In any order.

    Raises:
        OSError: The file cannot be written.
    """
    zero_s = min((t for i in iterations for t in _times_s(i)), default=0.0)
    trace = {
        "displayTimeUnit": "ms",
        "otherData": {"clock": "time.monotonic() of rank 0", "zero_s": zero_s},
        "traceEvents": trace_events(iterations, zero_s),
    }
    with Path(path).open("w", encoding="utf-8") as file:
        json.dump(trace, file, allow_nan=False, separators=(",", ":"))


def trace_events(iterations: Sequence[Iteration], zero_s: float) -> list[Event]:
    """Return the events by time, names of processes and rows first; `zero_s` is time 0."""
    events: list[Event] = []
    rows: dict[int, _Rows] = {}
    ranks = max((iteration.ranks for iteration in iterations), default=0)
    for number, iteration in enumerate(sorted(iterations, key=_first_s)):
        for event in _events_of(iteration, rows):
            event["ts"] = _microseconds(event["ts"], zero_s)
            if event["ph"] == "X":
                event["dur"] = _microseconds(event["dur"], zero_s) - event["ts"]
            events.append(event)
        events += _flows(iteration, zero_s, number * ranks)
    # Stable: what lies around others was put first, and has to come first at equal times.
    events.sort(key=lambda event: float(event["ts"]))
    return [*_names(ranks, rows), *events]


class _Rows:
    """Gives overlapping buckets of one rank different rows, as few as will do."""

    def __init__(self) -> None:
        self.free_from_s: list[float] = []

    def row(self, start_s: float, end_s: float) -> int:
        for row, free_s in enumerate(self.free_from_s):
            if free_s <= start_s:
                self.free_from_s[row] = end_s
                return row
        self.free_from_s.append(end_s)
        return len(self.free_from_s) - 1


def _events_of(iteration: Iteration, rows: dict[int, _Rows]) -> Iterator[Event]:
    """Events with `ts`, and the end of complete ones as `dur`, still in seconds of the records."""
    args: dict[str, Any] = {"model": iteration.model, "iteration": iteration.iteration}
    times = (iteration.start_s, iteration.arrival_s, iteration.finish_s)
    for rank, lane in enumerate(lanes(*times)):
        for interval in lane:
            row = _COMPUTATION if interval.activity == "computation" else _ALL_REDUCE
            about = args | ({"for_rank": iteration.last_rank} if row == _ALL_REDUCE else {})
            yield _complete(interval.activity, (rank, row), interval.start_s, interval.end_s, about)
        predicted_s = iteration.predicted_s[rank]
        if not math.isnan(predicted_s):
            error_s = iteration.prediction_error_s[rank]
            about = args | ({} if math.isnan(error_s) else {"error_ms": error_s * 1e3})
            yield _instant("predicted arrival", rank, predicted_s, about)
    if not math.isnan(iteration.decided_s) and iteration.ranks:
        about = args | {"edges": iteration.edges}
        yield _instant("plan decided", 0, iteration.decided_s, about)
    for rank in range(iteration.ranks):
        known = [b for b in iteration.buckets if b.finish_s[rank] >= b.arrival_s[rank]]
        for bucket in sorted(known, key=lambda bucket: bucket.arrival_s[rank]):
            start_s, end_s = bucket.arrival_s[rank], bucket.finish_s[rank]
            row = _BUCKETS + rows.setdefault(rank, _Rows()).row(start_s, end_s)
            yield _complete(f"bucket {bucket.index}", (rank, row), start_s, end_s, _about(bucket))


def _about(bucket: BucketRecord) -> dict[str, Any]:
    return {
        "algorithm": bucket.algorithm,
        "segments": bucket.segments,
        "elements": bucket.elements,
        "planned": bucket.planned,
    }


def _complete(
    name: str, rank_row: tuple[int, int], start_s: float, end_s: float, args: dict[str, Any]
) -> Event:
    event = {"name": name, "ph": "X", "ts": start_s, "dur": end_s}
    return event | _where(*rank_row) | {"cat": "patallreduce", "args": args}


def _instant(name: str, rank: int, at_s: float, args: dict[str, Any]) -> Event:
    event = {"name": name, "ph": "i", "s": "t", "ts": at_s}
    return event | _where(rank, _PREDICTION) | {"cat": "patallreduce", "args": args}


def _flows(iteration: Iteration, zero_s: float, first_id: int) -> Iterator[Event]:
    """Arrows from the last rank's computation to where each rank that waited goes on.

    A flow holds on to the event that encloses its end: it begins a microsecond before the last
    rank's computation is over, and is only drawn where both ends have an event to hold on to.
    """
    last = iteration.last_rank
    if last is None:
        return
    last_us = _microseconds(iteration.last_arrival_s, zero_s)
    start_s = iteration.start_s[last]
    if math.isnan(start_s) or _microseconds(start_s, zero_s) >= last_us:
        return
    for rank, (arrival_s, finish_s) in enumerate(
        zip(iteration.arrival_s, iteration.finish_s, strict=True)
    ):
        waited = _microseconds(arrival_s, zero_s) < last_us
        if rank == last or not waited or math.isnan(finish_s):
            continue
        if _microseconds(finish_s, zero_s) <= last_us:
            continue
        ends = [("s", last_us - 1, last, _COMPUTATION), ("f", last_us, rank, _ALL_REDUCE)]
        for phase, at_us, of_rank, row in ends:
            flow = {"name": "last arrival", "cat": "patallreduce", "ph": phase, "ts": at_us}
            flow |= {"id": first_id + rank} | _where(of_rank, row)
            yield flow | ({"bp": "e"} if phase == "f" else {})


def _names(ranks: int, rows: dict[int, _Rows]) -> Iterator[Event]:
    for rank in range(ranks):
        yield _metadata("process_name", rank, _COMPUTATION, name=f"rank {rank}")
        yield _metadata("process_sort_index", rank, _COMPUTATION, sort_index=rank)
        names = {_COMPUTATION: "computation", _PREDICTION: "prediction", _ALL_REDUCE: "all-reduce"}
        for row in range(len(rows[rank].free_from_s) if rank in rows else 0):
            names[_BUCKETS + row] = "buckets"
        for row, name in names.items():
            yield _metadata("thread_name", rank, row, name=name)
            yield _metadata("thread_sort_index", rank, row, sort_index=row)


def _metadata(what: str, rank: int, row: int, **args: Any) -> Event:
    return {"name": what, "ph": "M", "ts": 0, "args": args} | _where(rank, row)


def _where(rank: int, row: int) -> Event:
    return {"pid": rank, "tid": _ROWS_OF_A_RANK * (rank + 1) + row}


def _times_s(iteration: Iteration) -> Iterator[float]:
    held = [iteration.start_s, iteration.finish_s, (iteration.decided_s,)]
    for bucket in iteration.buckets:
        held += [bucket.predicted_s, bucket.arrival_s, bucket.finish_s]
    return (time_s for times_s in held for time_s in times_s if not math.isnan(time_s))


def _first_s(iteration: Iteration) -> float:
    return min(_times_s(iteration), default=0.0)


def _microseconds(time_s: float, zero_s: float) -> int:
    return -1 if math.isnan(time_s) else round((time_s - zero_s) * 1e6)
