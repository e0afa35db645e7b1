"""The code of a decision function decides as the function does."""

import random
import subprocess

import pytest

from patallreduce.decisions import code
from patallreduce.decisions.decision_tree import ATTRIBUTES
from patallreduce.decisions.quadtree import quadtree
from patallreduce.decisions.times import Method
from patallreduce.decisions.tree_by_gain import c45

METHODS = [Method("ring"), Method("ring", 32768), Method("rabenseifner")]
DRAW = random.Random(11)
MAP = {
    (p, 4**n): {method: DRAW.uniform(1, 2) for method in METHODS}
    for p in range(2, 12)
    for n in range(6)
}
FUNCTIONS = {
    "quadtree": quadtree(MAP),
    "shallow": quadtree(MAP, most_depth=2),
    "c45": c45(MAP, weight=1, confidence=None, attributes=tuple(ATTRIBUTES)),
}
POINTS = [(p, m) for p in range(1, 20) for m in (0, 1, 3, 4, 63, 64, 255, 1 << 12, 1 << 30)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_python(name):
    made = {}
    exec(code.python(FUNCTIONS[name]), made)
    for point in POINTS:
        assert made["METHODS"][made["decide"](*point)] == str(FUNCTIONS[name](*point))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cpp(name, tmp_path):
    (tmp_path / "decide.h").write_text(code.cpp(FUNCTIONS[name]))
    (tmp_path / "main.cpp").write_text(
        '#include "decide.h"\n#include <cstdio>\n'
        'int main() { long long p, m; while (std::scanf("%lld %lld", &p, &m) == 2)\n'
        "  std::puts(methods[decide(p, m)]); }\n"
    )
    program = tmp_path / "decide"
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", program, tmp_path / "main.cpp"],
        check=True,
        timeout=60,
    )
    given = "\n".join(f"{p} {m}" for p, m in POINTS)
    told = subprocess.run(
        [program], check=True, input=given, capture_output=True, text=True, timeout=60
    )
    assert told.stdout.split() == [str(FUNCTIONS[name](*point)) for point in POINTS]
