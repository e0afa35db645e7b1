"""When did each rank do what, and what did the all-reduce cost?

One JSON line per rank and iteration, in a file per rank. Times are seconds of `time.monotonic()`:
one clock for all processes of a machine, network namespaces included. Machines of a real cluster
each have their own, so records of different machines must not be compared before their clocks'
offsets are taken out.

    start      computation              arrival    all-reduce    finish  optimizer  end
    |--- forward and backward pass ------|--------------------------|-------------|

The cost is stated with the project's measures: elapsed of a rank is finish - arrival, *after* is
the latest finish - the latest arrival.
"""

import dataclasses
import itertools
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ITERATIONS_FILE = "iterations.jsonl"  # what the progress monitor saw, in the same folder
FIRST_STEADY_ITERATION = 5  # before it: DDP rebuilds its buckets, connections are made, caches fill


@dataclass(frozen=True)
class Record:
    """One rank's iteration; times in seconds, loss is the rank's own."""

    iteration: int
    start_s: float
    arrival_s: float
    finish_s: float
    end_s: float
    loss: float

    @property
    def elapsed_s(self) -> float:
        """How long the rank's gradients were in the all-reduce."""
        return self.finish_s - self.arrival_s


Run = list[list[Record]]  # [iteration][rank]


@dataclass(frozen=True)
class Summary:
    """What rank 0 knows of a run at its end."""

    images: str
    hook: str
    ranks: int
    gradient_bytes: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Measures:
    """Medians over the steady iterations, in seconds."""

    iteration_s: float
    average_elapsed_s: float
    after_s: float
    late_elapsed_s: float
    late_computation_s: float  # the late rank's own work: no exact all-reduce makes it shorter


class Recorder:
    """Writes a rank's records as they come; a run that dies leaves what it has seen."""

    def __init__(self, folder: Path, rank: int, *, resumed: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _path(folder, rank).open("a" if resumed else "w", buffering=1)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, record: Record) -> None:
        """Append the record of an iteration that has ended."""
        self._file.write(json.dumps(dataclasses.asdict(record)) + "\n")


def count_iterations(folder: Path) -> int:
    """How many iterations rank 0 has recorded so far."""
    path = _path(folder, 0)
    return len(path.read_text().splitlines()) if path.is_file() else 0


def read_run(folder: Path) -> Run:
    """Read the records of a run's ranks, iterations in order.

    Raises:
        ValueError: No records, or the ranks did not record the same iterations.
    """
    ranks = [_read_rank(path) for path in _rank_paths(folder)]
    if not ranks or not ranks[0]:
        raise ValueError(f"{folder}: no records of rank 0; was the run given --records?")
    for rank, records in enumerate(ranks):
        if [r.iteration for r in records] != [r.iteration for r in ranks[0]]:
            raise ValueError(
                f"{folder}: rank 0 recorded {len(ranks[0])} iterations, rank {rank} recorded "
                f"{len(records)} or other ones"
            )
    return [list(iteration) for iteration in zip(*ranks, strict=True)]


def write_summary(folder: Path, summary: Summary) -> None:
    """Write a run's summary beside its records."""
    (folder / "summary.json").write_text(json.dumps(dataclasses.asdict(summary), indent=2) + "\n")


def read_summary(folder: Path) -> Summary:
    """Read what `write_summary` wrote."""
    return Summary(**json.loads((folder / "summary.json").read_text()))


def measure(runs: Sequence[Run], *, late_rank: int) -> Measures:
    """Measure the steady iterations of one configuration's runs, taken together.

    Raises:
        ValueError: A run is too short to have two steady iterations.
    """
    iteration_s: list[float] = []
    steady: Run = []
    for run in runs:
        if len(run) < FIRST_STEADY_ITERATION + 2:
            raise ValueError(f"{len(run)} iterations; at least {FIRST_STEADY_ITERATION + 2} needed")
        ends_s = [max(r.end_s for r in ranks) for ranks in run[FIRST_STEADY_ITERATION:]]
        iteration_s += [end - before for before, end in itertools.pairwise(ends_s)]
        steady += run[FIRST_STEADY_ITERATION:]
    return Measures(
        iteration_s=statistics.median(iteration_s),
        average_elapsed_s=statistics.median(
            statistics.fmean(r.elapsed_s for r in ranks) for ranks in steady
        ),
        after_s=statistics.median(
            max(r.finish_s for r in ranks) - max(r.arrival_s for r in ranks) for ranks in steady
        ),
        late_elapsed_s=statistics.median(ranks[late_rank].elapsed_s for ranks in steady),
        late_computation_s=statistics.median(
            ranks[late_rank].end_s - ranks[late_rank].start_s - ranks[late_rank].elapsed_s
            for ranks in steady
        ),
    )


def _path(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.jsonl"


def _rank_paths(folder: Path) -> Iterator[Path]:
    rank = 0
    while (path := _path(folder, rank)).is_file():
        yield path
        rank += 1


def _read_rank(path: Path) -> list[Record]:
    # A run resumed from a checkpoint repeats what came after it: the later record counts.
    latest: dict[int, Record] = {}
    for line in path.read_text().splitlines():
        record = Record(**json.loads(line))
        latest[record.iteration] = record
    return [latest[iteration] for iteration in sorted(latest)]
