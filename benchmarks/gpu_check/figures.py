"""Key figures of each part of benchmarks.gpu_check, from what it printed or wrote."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

GOAL = 0.85  # of the copy's bytes per second, from 64 MiB on
GOAL_FROM_BYTES = 64 << 20


def facts(output: str) -> dict[str, Any]:
    """Lines about CUDA of `patallreduce info`."""
    found = {}
    for line in output.splitlines():
        name, _, value = re.sub(r"\s{2,}", "\t", line, count=1).partition("\t")
        if name == "torch" or name.startswith("CUDA"):
            found[name] = value
    return found


def tests(output: str) -> dict[str, Any]:
    """How many tests did what, and the first that failed."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]
    counts = re.findall(r"(\d+) ([a-z]+)", lines[-1].split(" in ")[0]) if lines else []
    found: dict[str, Any] = {kind: int(number) for number, kind in counts}
    if not lines:  # its time was over: what `pytest -v` has told so far
        told = re.findall(r" (PASSED|FAILED|ERROR|SKIPPED) ", output)
        found = {f"{kind.lower()} so far": told.count(kind) for kind in sorted(set(told))}
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if failed:
        found["first failures"] = " ".join(failed[:5])
    return found


def json_lines(output: str) -> list[dict[str, Any]]:
    """Whole lines of JSON among others."""
    lines = [line for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    return [json.loads(line) for line in lines]


def kernels(output: str, out: Path) -> dict[str, Any]:
    """Smallest ratio to the copy by form, and what misses the goal; writes kernels.jsonl."""
    rows = json_lines(output)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (out / "kernels.jsonl").write_text(text, encoding="utf-8")
    large = [row for row in rows if row["array_bytes"] >= GOAL_FROM_BYTES]
    found: dict[str, Any] = {"cases": len(rows)}
    if not large:
        return found
    by_form = defaultdict(list)
    for row in large:
        by_form[row["form"]].append(row["ratio_to_copy"])
    for form, ratios in by_form.items():
        found[f"smallest ratio to copy, {form}"] = min(ratios)
    below = [row for row in large if row["ratio_to_copy"] < GOAL]
    found[f"cases below {GOAL}"] = f"{len(below)} of {len(large)}"
    for row in sorted(below, key=lambda row: float(row["ratio_to_copy"]))[:3]:
        case = f"{row['dtype']} {row['form']} {row['array_bytes'] >> 20} MiB"
        found[f"below: {case}"] = row["ratio_to_copy"]
    copies = [row["copy_gb_per_s"] for row in large]
    found["copy GB/s"] = f"{min(copies)} to {max(copies)}"
    return found


def all_reduce(out: Path) -> dict[str, Any]:
    """By ranks: NCCL's own time, and the best of ours to it, balanced and with a late rank."""
    lines = (out / "all_reduce.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    cases = defaultdict(list)
    for row in rows:
        cases[row["ranks"], row["bytes"], row["late_rank"] is not None].append(row)
    found: dict[str, Any] = {"cases": len(rows), "wrong": sum(row["wrong"] for row in rows)}
    for (ranks, size_bytes, late), inside in cases.items():
        ours = [row for row in inside if row["ratio_to_nccl"] and row["algorithm"] != "nccl"]
        if not ours:
            continue
        best = min(ours, key=lambda row: float(row["ratio_to_nccl"]))
        theirs = next(row for row in inside if row["algorithm"] == "nccl")
        time_ms = theirs[best["ratio_of"]] * 1e3
        what = "after, one late" if late else "elapsed, balanced"
        case = f"{ranks} ranks, {size_bytes} bytes, {what}"
        found[case] = (
            f"nccl {time_ms:.2f} ms, {best['algorithm']} {best['ratio_to_nccl']:.2f} of it"
        )
    return found


def sanitizer(output: str) -> dict[str, Any]:
    """compute-sanitizer's own last word, and the tests'."""
    words = re.findall(r"ERROR SUMMARY: .*", output)
    return {**({"said": words[-1]} if words else {}), **tests(output)}
