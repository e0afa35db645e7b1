"""What is known of a training iteration: when each rank started, arrived and finished.

    start       computation       arrival        all-reduce        finish
    |--- forward and backward pass --|---------------------------------|

All times are seconds of one clock, the leader's `time.monotonic()`. The leader knows all ranks;
elsewhere what a rank has not been told is NaN, and so is every measure that would need it: a
measure is right or it is NaN, never a guess from the ranks that happen to be known.

Elapsed time of a rank is finish - arrival, and its mean over the ranks is the average elapsed time
(Faraj et al., as in Proficz, J. Supercomput. 74 (2018)); *after*, this project's own, is the latest
finish - the latest arrival.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

Times = tuple[float, ...]  # [rank], seconds, NaN where unknown

FORWARD = 1 / 3  # label of the end of a DDP model's forward pass: backward computes twice as much


@dataclass(frozen=True)
class BucketRecord:
    """One bucket of an iteration: how it was summed, and when each rank had it ready and summed.

    `predicted_s` is what the plan was made for; NaN where nothing was predicted. `planned` says
    whether the leader's plan was followed, or the plain ring ran for want of one.
    """

    index: int
    elements: int
    algorithm: str
    segments: int
    predicted_s: Times
    arrival_s: Times
    finish_s: Times
    planned: bool


@dataclass(frozen=True)
class EdgeRecord:
    """A progress report of an iteration: when each rank had done so much of its computation.

    A DDP model's forward pass ends at `FORWARD`; a quarter, a half, three quarters of its gradients
    are ready at 1/2, 2/3, 5/6 (`patallreduce.hooks.layers`).
    """

    fraction: float
    at_s: Times


@dataclass(frozen=True)
class Iteration:
    """One training iteration of one model.

    Args:
        model: Tells the models of a process apart; 0: the collectives outside DDP.
        iteration: Its number, from 0.
        start_s: (P,) when each rank's forward pass began.
        decided_s: When the leader decided on the plan.
        edges: How many progress reports the leader had by then.
        finish_s: (P,) when each rank had the last sum.
        buckets: In the order of their indices.
        progress: In the order of their fractions.
        host: How busy each rank's host was, now and then: "waited", "throttled", "stolen", as parts
            of the time, "faults_per_s" (`csrc/monitor/host.h`). NaN: not told with this iteration.
            Like `progress` empty in records of earlier versions.
        ports: (P,) bandwidth of each rank's port as it was known then, bytes per second; (): it is
            not known, as where ranks share a host.

    Raises:
        ValueError: The lists of times are not all of one length.
    """

    model: int
    iteration: int
    start_s: Times
    decided_s: float
    edges: int
    finish_s: Times
    buckets: tuple[BucketRecord, ...]
    progress: tuple[EdgeRecord, ...] = ()
    host: Mapping[str, Times] = field(default_factory=dict, hash=False)
    ports: Times = ()

    def __post_init__(self) -> None:
        named = [("finish_s", self.finish_s)]
        for bucket in self.buckets:
            for name in ("predicted_s", "arrival_s", "finish_s"):
                named.append((f"bucket {bucket.index}: {name}", getattr(bucket, name)))
        named += self.host.items()
        if self.ports:
            named.append(("ports", self.ports))
        named += [(f"edge {edge.fraction:.2f}", edge.at_s) for edge in self.progress]
        for name, times in named:
            if len(times) != self.ranks:
                raise ValueError(
                    f"iteration {self.iteration}: {name}: expected {self.ranks} times, one per "
                    f"rank as in start_s, got {len(times)}"
                )

    @property
    def begun(self) -> bool:
        """Whether a rank has, as far as is known here."""
        arrivals_s = (bucket.arrival_s for bucket in self.buckets)
        return any(not math.isnan(at_s) for at_s in chain(self.start_s, *arrivals_s))

    @property
    def ranks(self) -> int:
        """P."""
        return len(self.start_s)

    @cached_property
    def arrival_s(self) -> Times:
        """(P,) when each rank's last bucket was ready."""
        return self._latest_of_buckets("arrival_s")

    @cached_property
    def predicted_s(self) -> Times:
        """(P,) when each rank's last bucket was expected to be ready."""
        return self._latest_of_buckets("predicted_s")

    @cached_property
    def prediction_error_s(self) -> Times:
        """(P,) predicted - real arrival; above 0, the rank came earlier than expected."""
        return _difference(self.predicted_s, self.arrival_s)

    @cached_property
    def computation_s(self) -> Times:
        """(P,) arrival - start."""
        return _difference(self.arrival_s, self.start_s)

    @cached_property
    def median_arrival_s(self) -> float:
        """When the median rank arrived; of two in the middle, the earlier.

        So it is the arrival of a rank, and of two ranks the later one is late by all that it keeps
        the other waiting.
        """
        known = _known(self.arrival_s)
        return statistics.median_low(self.arrival_s) if known else math.nan

    @cached_property
    def lateness_s(self) -> Times:
        """(P,) arrival after the median rank's; below 0 for the early ones."""
        return tuple(arrival_s - self.median_arrival_s for arrival_s in self.arrival_s)

    @cached_property
    def last_arrival_s(self) -> float:
        """When the last rank arrived; before, nobody can have the sum."""
        return _latest(self.arrival_s)

    @cached_property
    def last_rank(self) -> int | None:
        """The rank that arrived last; of equals the lowest; None if not all arrivals are known."""
        return _last(self.arrival_s)

    @cached_property
    def predicted_last_rank(self) -> int | None:
        """The rank that was expected to arrive last; None if not all were predicted."""
        return _last(self.predicted_s)

    @cached_property
    def elapsed_s(self) -> Times:
        """(P,) finish - arrival, how long each rank's gradients were in the all-reduce."""
        return _difference(self.finish_s, self.arrival_s)

    @property
    def average_elapsed_s(self) -> float:
        """Mean of `elapsed_s` over the ranks."""
        return statistics.fmean(self.elapsed_s) if self.elapsed_s else math.nan

    @property
    def after_s(self) -> float:
        """The latest finish - the latest arrival, what is left to do once nobody is missing."""
        return _latest(self.finish_s) - self.last_arrival_s

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Iteration:
        """Read a record; times that are None or far from any clock's become NaN.

        Unknown keys are ignored.

        Raises:
            ValueError: Something is missing, or not of the right kind.
        """
        try:
            buckets = tuple(_bucket(bucket) for bucket in record["buckets"])
            return cls(
                model=int(record["model"]),
                iteration=int(record["iteration"]),
                start_s=_times(record["start_s"]),
                decided_s=_time(record["decided_s"]),
                edges=int(record["edges"]),
                finish_s=_times(record["finish_s"]),
                buckets=buckets,
                progress=tuple(
                    EdgeRecord(float(edge["fraction"]), _times(edge["at_s"]))
                    for edge in record.get("progress", ())
                ),
                host={str(k): _times(of) for k, of in dict(record.get("host", {})).items()},
                ports=_times(record.get("ports", ())),
            )
        except KeyError as error:
            raise ValueError(f"not a record of an iteration: {error} is missing") from error
        except (TypeError, OverflowError) as error:
            raise ValueError(f"not a record of an iteration: {error}") from error

    def _latest_of_buckets(self, name: str) -> Times:
        if not self.buckets:
            return (math.nan,) * self.ranks
        times = [getattr(bucket, name) for bucket in self.buckets]
        return tuple(_latest(of_rank) for of_rank in zip(*times, strict=True))


def _bucket(record: Mapping[str, Any]) -> BucketRecord:
    return BucketRecord(
        index=int(record["index"]),
        elements=int(record["elements"]),
        algorithm=str(record["algorithm"]),
        segments=int(record["segments"]),
        predicted_s=_times(record["predicted_s"]),
        arrival_s=_times(record["arrival_s"]),
        finish_s=_times(record["finish_s"]),
        planned=bool(record["planned"]),
    )


_FAR_S = 1e12  # from 0: no clock shows it


def _time(value: Any) -> float:
    time_s = math.nan if value is None else float(value)
    return time_s if abs(time_s) < _FAR_S else math.nan


def _times(values: Iterable[Any]) -> Times:
    return tuple(map(_time, values))


def _known(times_s: Sequence[float]) -> bool:
    return bool(times_s) and not any(map(math.isnan, times_s))


def _latest(times_s: Sequence[float]) -> float:
    return max(times_s) if _known(times_s) else math.nan


def _last(times_s: Sequence[float]) -> int | None:
    return times_s.index(max(times_s)) if _known(times_s) else None


def _difference(later_s: Times, earlier_s: Times) -> Times:
    return tuple(later - earlier for later, earlier in zip(later_s, earlier_s, strict=True))
