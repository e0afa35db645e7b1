"""How long one decision takes natively: of generated code, and of the table that jobs go by."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from patallreduce.decisions import code
from patallreduce.decisions.decision_tree import DecisionTree
from patallreduce.decisions.quadtree import Quadtree

CORE = Path(__file__).parents[2] / "csrc"
FLAGS = ["-std=c++17", "-O2"]


def code_ns(function: DecisionTree | Quadtree) -> float:
    """Of its generated C++."""
    return _ns(code.cpp(function), [])


def table_ns(rules: int) -> float:
    """Of `selection::Rules` with so many rules, the sizes spread evenly over powers of 2."""
    sizes = sorted({round(2 ** (24 * (n + 1) / rules)) for n in range(rules)})
    told = ", ".join(f'{{{size}u, "", {n}}}' for n, size in enumerate(sizes))
    header = (
        '#include <cstdlib>\n#include "selection/rules.h"\n'
        # What rules that name no algorithm never ask the rest of the core.
        "namespace patallreduce::algorithms {\n"
        "const Algorithm& find_algorithm(const std::string&, const std::string&) {\n"
        "  std::abort();\n}\n"
        "int segments_for(const Algorithm&, int, const Bucket&, const Link&) {\n"
        "  std::abort();\n}\n}\n"
        f'inline const patallreduce::selection::Rules table({{{told}}}, "");\n'
        "inline int decide(std::int64_t, std::int64_t bytes) {\n"
        "  const auto* rule = table.find(std::uint64_t(bytes));\n"
        "  return rule ? int(rule->segment_bytes) : -1;\n}\n"
    )
    needs = [f"-I{CORE}", str(CORE / "selection/rules.cpp")]
    return _ns(header, needs)


def _ns(header: str, more: list[str]) -> float:
    source = Path(__file__).with_suffix(".cpp")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "decide.h").write_text(header, encoding="utf-8")
        compiler = os.environ.get("CXX", "g++").split()
        program = f"{folder}/clock"
        command = [*compiler, *FLAGS, f"-I{folder}", str(source), *more, "-o", program]
        subprocess.run(command, check=True)
        told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return float(told.split()[0])
