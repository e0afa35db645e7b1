"""Build, check and time everything that needs a GPU, in less than ten minutes.

    python -m benchmarks.gpu_check --out out/gpu

One part after the other, each a command with a time of its own, and what those before it have left
of theirs: one that fails or hangs does not stop the others. OUT gets summary.json and summary.txt
(rewritten after every part), log.txt (what all commands printed), and the lines and the picture of
the benchmarks.
"""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import environment

from .part import Outcome, run
from .parts import parts

TOTAL_S = 585.0  # for all parts, whatever each may take: who starts this may give it ten minutes


def summarise(out: Path, outcomes: list[Outcome], where: dict[str, Any]) -> str:
    """Write what is known so far; the text for people."""
    summary = {
        "ok": all(outcome.rc in {0, None} for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "parts": [asdict(outcome) for outcome in outcomes],
        **where,
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    lines = [f"{'part':16}{'rc':>6}{'seconds':>9}  figures"]
    for outcome in outcomes:
        told = [f"{name}: {value}" for name, value in outcome.figures.items()]
        rc = "-" if outcome.rc is None else str(outcome.rc)
        told += [outcome.reason] if outcome.reason else []
        first, *others = told or [""]
        lines.append(f"{outcome.name:16}{rc:>6}{outcome.seconds:9.1f}  {first}")
        lines += [" " * 33 + line for line in others]
    text = "\n".join(lines) + "\n"
    (out / "summary.txt").write_text(text, encoding="utf-8")
    return text


def main() -> None:
    """Run all parts, or the chosen ones."""
    parser = command_line("gpu_check", __doc__)
    names = [part.name for part in parts(Path())]
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="folder")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", default=names)
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log.txt"
    log.write_text("", encoding="utf-8")
    for old in ("kernels.jsonl", "all_reduce.jsonl", "all_reduce.png"):
        (out / old).unlink(missing_ok=True)
    where = {"environment": {**environment(), "platform": platform.platform()}}
    outcomes: list[Outcome] = []
    text, saved_s, until_s = "", 0.0, time.monotonic() + TOTAL_S
    for part in parts(out):
        if part.name in options.only:
            print(f"{part.name} ...", flush=True)
            outcomes.append(run(part, log, saved_s, until_s - time.monotonic()))
            saved_s = max(0.0, saved_s + part.budget_s - outcomes[-1].seconds)
            text = summarise(out, outcomes, where)
    print(text)
    if not all(outcome.rc in {0, None} for outcome in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
