"""Writes rules as the CSV that NCCL's example tuner plugin reads, as far as NCCL can do it.

NCCL has rings, trees (all-reduces only) and an own way for small blocks; what else was measured
here it cannot run. The file says nothing of its protocols, channels and pipelines: a line of
it has -1 for what NCCL may choose, but a protocol, which the plugin wants to know: `simple`, that
runs everywhere.

Source: the README of ext-tuner/example in NCCL's repository.
"""

from __future__ import annotations

import csv
import io
import math

from patallreduce.decisions.other_names import other_names
from patallreduce.decisions.rules import FileRule, Range, TuningFile

HEADER = (
    "collective_type", "min_bytes", "max_bytes", "algorithm", "protocol", "channels", "nNodes",
    "nRanks", "numPipeOps", "regBuff",
)  # fmt: skip
_MOST_BYTES = 2**32 - 1  # that a line can have
_ANY = -1
_PROTOCOL = "simple"


def nccl_csv(file: TuningFile) -> tuple[str, list[FileRule]]:
    """The text, and the rules that it leaves out: NCCL has no such algorithm, or asks nothing.

    Of calls beside others NCCL knows nothing; what is one in flight stands for both.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADER)
    left = []
    for rule in file.rules:
        known = other_names("nccl").get(rule.collective, {"algorithms": {}})
        algorithm = known["algorithms"].get(rule.method.algorithm)
        first, last = rule.message_bytes
        if algorithm is None or rule.beside_others or first > _MOST_BYTES:
            left.append(rule)
            continue
        lines.writerow(
            (
                known["name"],
                int(first),
                int(min(last, _MOST_BYTES)),
                algorithm,
                _PROTOCOL,
                _ANY,
                _one(rule.nodes),
                _one(rule.ranks),
                _ANY,
                _ANY,
            )
        )
    return text.getvalue(), left


def _one(of: Range) -> int:
    return int(of[0]) if of[0] == of[1] < math.inf else _ANY
