"""Examples and benchmarks know nothing of each other, and nothing is found by a changed path."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.stem for path in (ROOT / "examples").glob("*.py")}


def imported(source):
    """Name the modules at the top of what a file imports, but for relative imports."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


@pytest.mark.parametrize(
    ("folder", "others"), [("examples", {"benchmarks"}), ("benchmarks", {"examples", *EXAMPLES})]
)
def test_neither_imports_the_other(folder, others):
    sources = sorted((ROOT / folder).rglob("*.py"))
    assert len(sources) > 10
    for source in sources:
        assert not others & set(imported(source)), source
        assert "sys.path" not in source.read_text(encoding="utf-8"), source
