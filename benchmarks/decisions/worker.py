"""One rank: measures a row of the decision map, all methods at every size, and model parameters.

Rank 0 writes one record of what a message takes by itself, and one for each collective and size.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import torch.distributed as dist

import patallreduce as pat
from benchmarks.lab.plan import Plan, Record
from benchmarks.lab.rank import keep, start_rank
from benchmarks.tuned.ways import Turns, Way, by_model, seconds_of, taking_turns, way_of
from patallreduce import _core
from patallreduce.decisions.times import Case, Method
from patallreduce.ending import end_rank
from patallreduce.statistics import trimmed_mean
from patallreduce.tuning.measuring import Measuring
from patallreduce.tuning.search import Search
from patallreduce.tuning.session import nodes_of

from .open_mpi import fixed

MOST_SLOWER = 3.0  # than the fastest so far, by the model: the others are not measured
STEP_BYTES = [1 << n for n in range(10, 19)]  # of one message of a ring
PIECE_BYTES = 1 << 10
PIECES = (32, 96)
ONCE_S, MOST_REPEATS = 0.05, 25  # of the first go
TURNS = Turns(0.2, turns=4, repeats=1)


def records(plan: Plan) -> Iterator[Record]:
    """Measure the parameters, then the row."""
    comm = pat.Communicator(monitor=False, timeout_s=plan["timeout_s"])
    measuring = Measuring(comm)
    yield {"ranks": comm.ranks, **_parameters(measuring, comm)}
    model = _core.Selector(comm.ranks, comm.link, comm.nodes)
    for collective in plan["collectives"]:
        for size in sorted([*plan["bytes"], *plan["held_out"]]):
            case = Case(collective, comm.ranks, nodes_of(comm), size, beside_others=False)
            prices_s = Search([case], comm.link, comm.nodes).prices_s[case]
            told = {
                "usual": way_of(case, Method(_core.usual_algorithm(collective).name), comm),
                "open_mpi": way_of(case, fixed(collective, comm.ranks, size), comm),
                "model": by_model(model, case, comm),
            }
            own: dict[str, Way] = {}
            about_s = float("inf")
            for method, price_s in prices_s.items():
                if price_s <= MOST_SLOWER * about_s:
                    way = own[method.algorithm] = way_of(case, method, comm)
                    repeats = min(max(int(ONCE_S / price_s), 1), MOST_REPEATS)
                    about_s = min(about_s, seconds_of(measuring, case, way, repeats))
            ways = {*own.values(), *told.values()}
            turns_s = taking_turns(measuring, case, ways, about_s, TURNS)
            seconds = {way: trimmed_mean(of) for way, of in turns_s.items()}
            yield {
                **case._asdict(),
                "held_out": size in plan["held_out"],
                "seconds": {f"{name}/{segments}": s for (name, segments), s in seconds.items()},
                "own": {name: f"{name}/{segments}" for name, (_, segments) in own.items()},
                "chosen": {who: f"{name}/{segments}" for who, (name, segments) in told.items()},
                "network": plan["network"],
                "environment": plan["environment"],
            }
    comm.close()


def _parameters(measuring: Measuring, comm: pat.Communicator) -> Record:
    """A step of a ring by its bytes, and each further piece of a stream."""
    ranks = comm.ranks

    def median_s(collective: str, way: Way, message_bytes: int) -> float:
        case = Case(collective, ranks, nodes_of(comm), message_bytes, beside_others=False)
        return seconds_of(measuring, case, way, 10)

    steps_s = {
        step_bytes: median_s("all_gather", ("ring_all_gather", ranks), step_bytes * ranks)
        / (ranks - 1)
        for step_bytes in STEP_BYTES
    }
    streams_s = [median_s("broadcast", ("chain_broadcast", n), n * PIECE_BYTES) for n in PIECES]
    gap_s = (streams_s[1] - streams_s[0]) / (PIECES[1] - PIECES[0])
    return {"steps_s": steps_s, "gap_s": gap_s, "reduce_bytes_per_s": comm.link.reduce_bytes_per_s}


def said(record: Record) -> str | None:
    """Tell of a size that is done."""
    if "collective" not in record:
        return None
    return f"{record['ranks']} ranks: {record['collective']} of {record['message_bytes']} bytes"


def main() -> None:
    """Run this rank's part of the plan; rank 0 writes the results."""
    plan = json.loads(sys.argv[1])
    start_rank()
    keep(plan, records(plan), said)
    dist.destroy_process_group()
    end_rank()


if __name__ == "__main__":
    main()
