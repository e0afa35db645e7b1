"""One rank: tunes within the budget, then measures sizes that were not tuned for.

Rank 0 writes a record for each of these: what every method took that may be the fastest, and what
rules, model and usual algorithm would choose.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch.distributed as dist

import patallreduce as pat
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.rank import keep, start_rank
from patallreduce import _core
from patallreduce.communicator.calls import by_rule
from patallreduce.decisions.rules import fitted
from patallreduce.decisions.times import Case, Method, Times
from patallreduce.ending import end_rank
from patallreduce.pricing.selection import cheapest
from patallreduce.tuning.measuring import ANY_SIZE, ELEMENT_BYTES, Measuring, elements_of
from patallreduce.tuning.search import Search
from patallreduce.tuning.session import Journal, cases_of, machine_of, tune

LONG_S = 0.05  # of the repeats of what is short
MOST_SLOWER = 1.5  # than the fastest so far, by the model: the others are not measured


def records(plan: Plan) -> Iterator[Record]:
    """Tune, then measure what was held out."""
    comm = pat.Communicator(monitor=False, timeout_s=plan["timeout_s"])
    machine = machine_of(comm)
    tuned_cases = cases_of(comm, plan["collectives"], plan["bytes"])
    begun_s = time.monotonic()
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "times.jsonl", machine) if comm.rank == 0 else None
        tune(comm, tuned_cases, plan["budget_s"], journal)
        times = journal.times if journal is not None else times
    took_s = time.monotonic() - begun_s
    told = [list(times.lines())]
    dist.broadcast_object_list(told, 0)
    file = fitted(_read(told[0]), machine)
    rules = {
        beside: file.rules_for("all_reduce", comm.ranks, _nodes(comm), beside_others=beside)
        for beside in (False, True)
    }
    model = _core.Selector(comm.ranks, comm.link, comm.nodes)
    measuring = Measuring(comm)
    for case in cases_of(comm, plan["collectives"], plan["held_out"]):
        ruling = (
            rules[case.beside_others]
            if case.collective == "all_reduce"
            else file.rules_for(case.collective, comm.ranks, _nodes(comm))
        )
        choices = {
            "rules": _by_rules(ruling, case, comm),
            "model": _by_model(model, case, comm),
            "usual": _segments(case, Method(_core.usual_algorithm(case.collective).name), comm),
        }
        prices_s = Search([case], comm.link, comm.nodes).prices_s[case]
        ways = set(choices.values())
        best_s = float("inf")
        seconds = {}
        for method, price_s in prices_s.items():
            if price_s <= MOST_SLOWER * best_s:
                way = _segments(case, method, comm)
                seconds[way] = _median_s(measuring, case, way, price_s, plan["repeats"])
                best_s = min(best_s, seconds[way])
        for way in sorted(ways - set(seconds)):
            seconds[way] = _median_s(measuring, case, way, best_s, plan["repeats"])
        # Once more those that count, in another order.
        for way in sorted({*ways, min(seconds, key=seconds.__getitem__)}, reverse=True):
            again_s = _median_s(measuring, case, way, best_s, plan["repeats"])
            seconds[way] = min(seconds[way], again_s)
        yield {
            **case._asdict(),
            "seconds": {f"{name}/{segments}": s for (name, segments), s in seconds.items()},
            "chosen": {who: f"{name}/{segments}" for who, (name, segments) in choices.items()},
            "network": plan["network"],
            "budget_s": plan["budget_s"],
            "tuned_s": took_s,
            "file_bytes": len(file.text()),
            "environment": plan["environment"],
        }
    comm.close()


Way = tuple[str, int]  # algorithm, segments


def _median_s(measuring: Measuring, case: Case, way: Way, about_s: float, repeats: int) -> float:
    name, segments = way
    repeats = min(max(int(LONG_S / about_s), repeats), 200)
    seconds = sorted(measuring.seconds(case, Method(name), repeats, segments=segments))
    return seconds[len(seconds) // 2]


def _by_rules(rules: _core.Rules, case: Case, comm: pat.Communicator) -> Way:
    found = by_rule(
        rules,
        case.collective,
        elements_of(case),
        ELEMENT_BYTES,
        ranks=comm.ranks,
        nodes=comm.nodes,
        link=comm.link,
    )
    assert found is not None, f"{case} has no rule"
    return found


def _segments(case: Case, method: Method, comm: pat.Communicator) -> Way:
    return _by_rules(_core.Rules([(ANY_SIZE, *method)], case.collective), case, comm)


def _by_model(model: _core.Selector, case: Case, comm: pat.Communicator) -> Way:
    size = (elements_of(case), ELEMENT_BYTES)
    if case.collective != "all_reduce":
        message = (case.ranks, ELEMENT_BYTES * size[0], size[0])
        name = cheapest(case.collective, *message, link=comm.link, nodes=comm.nodes)
        return _segments(case, Method(name), comm)
    if case.beside_others:
        return model.choose_beside_others(*size)[:2]
    return model.choose(*size, [0.0] * comm.ranks)[:2]


def _nodes(comm: pat.Communicator) -> int:
    return len(set(comm.nodes)) or comm.ranks


def _read(lines: list[str]) -> Times:
    times = Times()
    for line in lines:
        entry = json.loads(line)
        case = Case(**{name: entry[name] for name in Case._fields})
        times.add(case, Method(entry["algorithm"], entry["segment_bytes"]), entry["seconds"])
    return times


def main() -> None:
    """Run this rank's part of the plan; rank 0 writes the results."""
    plan = json.loads(sys.argv[1])
    start_rank()
    keep(plan, records(plan), lambda record: f"{record['collective']} of {record['message_bytes']}")
    dist.destroy_process_group()
    end_rank()


if __name__ == "__main__":
    main()
