"""Names of algorithms stand in csrc/algorithms alone; what else may say one, and why."""

import ast
import re
from pathlib import Path

import pytest

from patallreduce import _core

ROOT = Path(__file__).parents[2]
NAMES = {algorithm.name for algorithm in _core.algorithms()}
# By the source's file name: public defaults.
ALLOWED = {
    ("calls.py", "reproducible"): "what `reproducible=True` stands for",
    ("registration.py", "reproducible"): "the name of that argument",
    ("simulate_arguments.py", "slt"): "the documented default of `simulate --algorithm`",
}
SOURCES = sorted(
    path
    for folder in ("csrc", "patallreduce", "hooks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".pyi", ".h", ".cpp", ".cu", ".cuh"}
    and not path.is_relative_to(ROOT / "csrc" / "algorithms")
)


def literals(text, suffix):
    if suffix.startswith(".py"):
        nodes = ast.walk(ast.parse(text))
        return {node.value for node in nodes if isinstance(node, ast.Constant)}
    return set(re.findall(r'"([^"\n]*)"', re.sub(r"//.*", "", text)))


def test_what_it_looks_at():
    assert len(SOURCES) > 100
    assert literals('f("ring")  # "slt"', ".py") & NAMES == {"ring"}
    assert literals('call.key = {"ring", 1};  // "slt"', ".cpp") & NAMES == {"ring"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_book_knows_an_algorithm_by_name(source):
    found = literals(source.read_text(), source.suffix) & NAMES
    assert {(source.name, name) for name in found} <= set(ALLOWED)


def test_no_exception_outlives_its_reason():
    said = {
        (source.name, name)
        for source in SOURCES
        for name in literals(source.read_text(), source.suffix) & NAMES
    }
    assert said == set(ALLOWED)
