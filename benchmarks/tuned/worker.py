"""One rank: tunes within the budget, again and again, then measures sizes that were not tuned for.

Rank 0 writes a record for each of these: what every method took that may be the fastest, and what
the rules of each tuning, model and usual algorithm would choose.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch.distributed as dist

import patallreduce as pat
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.rank import keep, start_rank
from patallreduce import _core
from patallreduce.decisions.rules import TuningFile
from patallreduce.decisions.times import Case, Method
from patallreduce.ending import end_rank
from patallreduce.tuning.measuring import Measuring
from patallreduce.tuning.search import Search
from patallreduce.tuning.session import Journal, cases_of, file_of, machine_of, tune

from .ways import (
    Turns,
    Way,
    by_model,
    by_rules,
    rules_of,
    seconds_of,
    taking_turns,
    text_of,
    way_of,
)

MOST_SLOWER = 1.5  # than the fastest so far, by the model: the others are not measured
NEAR = 1.25  # of the fastest, by one go: may be as fast
FIRST_S, FIRST_REPEATS = 0.05, 100  # of that go, where it is short
# What is judged in a moment is judged by that moment, short calls above all, which may take twice
# as long for a second: all sizes take turns in some rounds.
ROUNDS, SHORT_S = 16, 0.003
ROUNDS_OF_LONG = 4  # a divisor
JUDGED_S, MOST_TURNS = 1.0, 512  # of each way, in all


class Judged(NamedTuple):
    """A size held out: who chose which ways, the least seconds, and those of each way's turns."""

    case: Case
    choices: dict[str, list[Way]]
    best_s: float
    turns_s: dict[Way, list[float]]

    @property
    def rounds(self) -> int:
        """In how many it takes part."""
        return ROUNDS if self.best_s < SHORT_S else ROUNDS_OF_LONG

    def take_turns(self, measuring: Measuring) -> None:
        """Measure one round."""
        turns = Turns(JUDGED_S / self.rounds, turns=4, repeats=2, most=MOST_TURNS // self.rounds)
        found = taking_turns(measuring, self.case, self.turns_s, self.best_s, turns)
        for way, seconds in found.items():
            self.turns_s[way] += seconds


def records(plan: Plan) -> Iterator[Record]:
    """Tune, then measure what was held out."""
    comm = pat.Communicator(monitor=False, timeout_s=plan["timeout_s"])
    tunings = [tuning(comm, plan, number) for number in range(plan["tunings"])]
    model = _core.Selector(comm.ranks, comm.link, comm.nodes)
    measuring = Measuring(comm)
    judged = []
    for case in cases_of(comm, plan["collectives"], plan["held_out"]):
        choices = {
            "rules": [by_rules(rules_of(file, case), case, comm) for file, _ in tunings],
            "model": [by_model(model, case, comm)],
            "usual": [way_of(case, Method(_core.usual_algorithm(case.collective).name), comm)],
        }
        near, best_s = nearly_fastest(measuring, case, comm)
        turns_s: dict[Way, list[float]] = {
            way: [] for way in near.union(*(choices[who] for who in choices))
        }
        judged.append(Judged(case, choices, best_s, turns_s))
    for number in range(ROUNDS):
        for one in judged:
            if number % (ROUNDS // one.rounds) == 0:
                one.take_turns(measuring)
    for case, choices, _, turns_s in judged:
        yield {
            **case._asdict(),
            "turns_s": {
                text_of(way): [round(s, 8) for s in turns_s[way]] for way in sorted(turns_s)
            },
            "chosen": {who: list(map(text_of, found)) for who, found in choices.items()},
            "network": plan["network"],
            "budget_s": plan["budget_s"],
            "tuned_s": [took_s for _, took_s in tunings],
            "file_bytes": [len(file.text()) for file, _ in tunings],
            "environment": plan["environment"],
        }
    comm.close()


def nearly_fastest(
    measuring: Measuring, case: Case, comm: pat.Communicator
) -> tuple[set[Way], float]:
    """Those that take turns, since the least of single medians would be the luckiest; seconds."""
    best_s = float("inf")
    seconds = {}
    for method, price_s in Search([case], comm.link, comm.nodes).prices_s[case].items():
        if price_s <= MOST_SLOWER * best_s:
            way = way_of(case, method, comm)
            repeats = min(max(int(FIRST_S / price_s), 1), FIRST_REPEATS)
            seconds[way] = seconds_of(measuring, case, way, repeats)
            best_s = min(best_s, seconds[way])
    return {way for way, s in seconds.items() if s <= NEAR * best_s}, best_s


def tuning(comm: pat.Communicator, plan: Plan, number: int) -> tuple[TuningFile, float]:
    """Tune once; the rules, and seconds that it took."""
    machine = machine_of(comm)
    cases = cases_of(comm, plan["collectives"], plan["bytes"])
    begun_s = time.monotonic()
    journal = None
    told: list[TuningFile | None] = [None]
    if comm.rank == 0:
        times = Path(plan["results"]).with_name(f"times{number}.jsonl")
        times.unlink(missing_ok=True)  # of an earlier run, which is not to be gone on with
        journal = Journal(times, machine)
    tune(comm, cases, plan["budget_s"], journal)
    if journal is not None:
        told[0] = file_of(comm, cases, journal.times, machine)
    took_s = time.monotonic() - begun_s
    if told[0] is not None:
        told[0].save(Path(plan["results"]).with_name(f"tuning{number}.json"))
    dist.broadcast_object_list(told, 0)
    assert told[0] is not None
    return told[0], took_s


def main() -> None:
    """Run this rank's part of the plan; rank 0 writes the results."""
    plan = json.loads(sys.argv[1])
    start_rank()
    keep(plan, records(plan), lambda record: f"{record['collective']} of {record['message_bytes']}")
    dist.destroy_process_group()
    end_rank()


if __name__ == "__main__":
    main()
