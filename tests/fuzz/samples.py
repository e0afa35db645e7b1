"""Files in which nothing is wrong, of every kind that a command or a job reads."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import patallreduce as pat
from patallreduce.decisions.machine import processor
from patallreduce.decisions.rules import FileRule, TuningFile
from patallreduce.decisions.times import Case, Method, header_of, line_of
from patallreduce.records.files import save_iterations
from tests.records.made_up import make_iteration


def _saved(save: Callable[[Path], None]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        save(path := Path(folder) / "sample")
        return path.read_text()


def _iterations(path: Path) -> None:
    arrivals_s = [(2.0, 5.0, 2.0 + number % 3) for number in range(12)]
    save_iterations(
        path,
        [
            make_iteration(number, of, at_s=10.0 * number, predicted_s=(2, 5, 2))
            for number, of in enumerate(arrivals_s)
        ],
    )


def _network(path: Path) -> None:
    narrow, wide = (pat.Link(20e-6, rate, transfers_s=((1e5, 1e-3),)) for rate in (1e8, 1e9))
    pat.Network([narrow, wide, wide], nodes=[0, 1, 1]).save(path)


def _tuning() -> str:
    machine = {"transport": "loopback", "processors": [processor()]}
    any_size, any_number = (0.0, math.inf), (1.0, math.inf)
    rules = (
        FileRule("all_reduce", any_number, (1, 4), (0, 65535), False, Method("slt", 8192)),
        FileRule("all_reduce", (2, 8), any_number, any_size, True, Method("ring")),
        FileRule("broadcast", any_number, any_number, (0, 99), False, Method("chain_broadcast")),
    )
    return TuningFile(machine, rules).text()


def _times() -> str:
    lines = [header_of({"transport": "ucx", "ranks": 4})]
    for size in (4096, 65536, 1 << 20):
        for name in ("ring", "slt", "gloo"):
            case = Case("all_reduce", 4, 4, size, False)
            lines.append(line_of(case, Method(name), [1e-3, 2e-3]))
    return "\n".join([*lines, ""])


def _postmortem() -> str:
    waiting = {"number": 7, "call": "a ring", "arrival_s": 1, "for_plan": False, "waits_for": 1}
    record = {"communicator": "a", "rank": 0, "ranks": 2, "unix_s": 1.0, "error": "E: text"}
    record |= {"at_s": 2.5, "called": 8, "peers": [{"called": 8}] * 2, "waiting": [waiting]}
    return json.dumps(record)


def _open_mpi_json() -> str:
    rules = [{"msg_size_min": 5, "alg": "ring", "seg_size": 64}]
    by_ranks = [{"comm_size_min": 2, "comm_size_max": "inf", "rules": rules}]
    return json.dumps({"module": "tuned", "collectives": {"allreduce": by_ranks}}, indent=1)


ITERATIONS = _saved(_iterations)
NETWORK = _saved(_network)
TUNING = _tuning()
TIMES = _times()
POSTMORTEM = _postmortem()
OPEN_MPI = "rule-file-version-2\n1 # one\n2\n1\n4 # ranks\n2\n0 3 0 0\n65536 5 0 1048576 8\n"
OPEN_MPI_JSON = _open_mpi_json()
ARRIVALS = "# seconds\n0 0.1, 0.2\n0 0 1e-3 # three\n"
