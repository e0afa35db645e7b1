"""What each rank knew when its communicator failed, and what that tells together.

Every rank writes one file. Times in it are `time.monotonic()`'s, of its host; `unix_s` says when
that was, for `at_s`. A rank without a file was killed, or had nowhere to write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patallreduce.text.files import parse_json, read_text

Record = dict[str, Any]
_LONGEST_S = 1e18
_SHARED = ("communicator", "ranks")  # by all records of one failure


def write(folder: Path, record: Record) -> Path:
    """Write one rank's record, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['communicator']}-rank-{record['rank']}.json"
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    unfinished.rename(path)
    return path


def load(folder: Path) -> list[Record]:
    """The records of the communicator that failed last, by rank.

    Raises:
        ValueError: The folder has none, or a file is not such a record.
    """
    records = []
    for path in sorted(folder.glob("*-rank-*.json")):
        text = read_text(path)
        try:
            record = parse_json(text)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if not _is_of_a_rank(record):
            raise ValueError(f"{path}: expected what patallreduce wrote of a rank")
        records.append(record)
    if not records:
        raise ValueError(f"{folder}: no records; expected files such as 1a2b3c4d-rank-0.json")
    newest = max(records, key=lambda record: float(record["unix_s"]))
    return sorted(
        (record for record in records if all(record[key] == newest[key] for key in _SHARED)),
        key=lambda record: int(record["rank"]),
    )


# Whether it has what `explain` looks at.
def _is_of_a_rank(record: Any) -> bool:
    try:
        of_ranks = [record["rank"], *(waiting["waits_for"] for waiting in record["waiting"])]
        counts = [record["called"], *(peer["called"] for peer in record["peers"])]
        counts += [waiting["number"] for waiting in record["waiting"]]
        seconds = [record["unix_s"], record["at_s"]]
        seconds += [waiting["arrival_s"] for waiting in record["waiting"]]
        texts = [record["communicator"], record["error"]]
        texts += [waiting["call"] for waiting in record["waiting"]]
        ranks, flags = record["ranks"], [waiting["for_plan"] for waiting in record["waiting"]]
    except (TypeError, KeyError):
        return False
    return (
        all(type(one) is int for one in (ranks, *of_ranks, *counts))
        and all(-1 <= rank < ranks for rank in of_ranks)
        and record["rank"] >= 0
        and len(record["peers"]) == ranks
        and all(type(one) in (int, float) and abs(one) < _LONGEST_S for one in seconds)
        and all(type(one) is str for one in texts)
        and all(type(one) is bool for one in flags)
    )


def explain(records: Sequence[Record]) -> str:
    """Say in one paragraph who waited for whom, and why."""
    ranks = int(records[0]["ranks"])
    by_rank = {int(record["rank"]): record for record in records}
    silent = [rank for rank in range(ranks) if rank not in by_rank]
    said = [f"Of {ranks} ranks {_ranks(by_rank)} left a record."]
    if silent:
        said.append(
            f"{_capital(_ranks(silent))} left none: killed, still running, or without a place to "
            "write."
        )
    errors: dict[str, list[int]] = {}
    for rank, record in by_rank.items():
        errors.setdefault(str(record["error"]), []).append(rank)
    if len(errors) == 1:
        said.append(f"It ended with: {next(iter(errors))}.")
    else:
        said += [f"{_capital(_ranks(of))} ended with: {error}." for error, of in errors.items()]
    said += _waiting(by_rank, ranks)
    return " ".join(sentence.replace("..", ".") for sentence in said)


def _waiting(by_rank: dict[int, Record], ranks: int) -> list[str]:
    waits: dict[int, dict[int, Record]] = {}  # by number of the collective, by rank
    for rank, record in by_rank.items():
        for waiting in record["waiting"]:
            waits.setdefault(int(waiting["number"]), {})[rank] = waiting
    if not waits:
        return ["No rank waited for a collective."]
    number = min(waits)
    here = waits[number]
    said = [f"The first collective without a result was number {number}, {_call(here)}."]
    for rank, waiting in here.items():
        waited_s = float(by_rank[rank]["at_s"]) - float(waiting["arrival_s"])
        for_whom = "its plan" if waiting["for_plan"] else f"rank {waiting['waits_for']}"
        if not waiting["for_plan"] and waiting["waits_for"] < 0:
            for_whom = "the others"
        said.append(f"Rank {rank} had waited {waited_s:.3g} s for {for_whom}.")
    absent = [rank for rank in range(ranks) if _called(by_rank, rank) <= number]
    if absent:
        seen = [
            f"rank {rank} had called {_called(by_rank, rank)}"
            + ("" if rank in by_rank else ", as far as the others know")
            for rank in absent
        ]
        said.append(f"So they waited for {_ranks(absent)}, not there yet: {'; '.join(seen)}.")
    elif (last := _end_of_chain(here)) is not None:
        had = "left no record" if last not in by_rank else "had called it, too, and did not wait"
        said.append(f"All had called it. So they waited for rank {last}, which {had}.")
    else:
        said.append("All had called it, and waited for each other.")
    return said


def _call(waits: dict[int, Record]) -> str:
    return str(next(iter(waits.values()))["call"])


def _called(by_rank: dict[int, Record], rank: int) -> int:
    """How many collectives a rank had called: what it says itself, or the most anyone knows."""
    if rank in by_rank:
        return int(by_rank[rank]["called"])
    return max(int(record["peers"][rank]["called"]) for record in by_rank.values())


def _end_of_chain(waits: dict[int, Record]) -> int | None:
    """Follow who waits for whom to one that does not wait itself; None: a circle, or unknown."""
    rank = next(iter(waits))
    for _ in waits:
        rank = int(waits[rank]["waits_for"])
        if rank < 0:
            return None
        if rank not in waits:
            return rank
    return None


def _ranks(of: Sequence[int] | dict[int, Record]) -> str:
    numbers = [str(rank) for rank in of]
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
