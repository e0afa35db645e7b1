"""What ARCHITECTURE.md says of folders, and the glossary of words, held to the sources.

That only the book of algorithms knows a name is held by tests/algorithms; which folder may include
which, by tests/test_layering.py.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
CORE = ROOT / "csrc"
PACKAGE = ROOT / "patallreduce"
# These words were replaced; the table of words says by what.
REPLACED = r"\b(?:played|swallow\w*|dawdl\w*|[Ll]ineup)\b|\bclass (?:\w+::)?(?:Door|Bell)\b"


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}$(.*?)^## ", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert found, f"ARCHITECTURE.md has no section {heading}"
    return found[1]


def folders(top: str) -> list[str]:
    """The folders below `top`, as the section lists them, from the top of the house down."""
    return re.findall(rf"^\| `{top}/(\w+)` \|", section("Folders"), re.MULTILINE)


def rooms() -> list[str]:
    return [path.parent.name for path in PACKAGE.glob("*/__init__.py")]


def python_imports(source: Path) -> set[str]:
    """The rooms of the package that a file imports; "" for a module beside them."""
    found = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "patallreduce" and len(parts) > 1:
                found.add(parts[1] if parts[1] in rooms() else "")
    return found


def test_every_folder_of_the_core_is_listed():
    assert sorted(folders("csrc")) == sorted(p.name for p in CORE.iterdir() if p.is_dir())


def test_every_room_of_the_package_is_listed():
    assert sorted(folders("patallreduce")) == sorted(rooms())


def test_the_core_includes_downwards():
    order = folders("csrc")
    for position, folder in enumerate(order):
        for source in (CORE / folder).rglob("*.*"):
            for included in re.findall(r'^#include "(\w+)/', source.read_text(), re.MULTILINE):
                assert order.index(included) >= position, f"{source} includes {included}"


def test_the_package_imports_downwards():
    order = folders("patallreduce")
    for position, room in enumerate(order):
        for source in (PACKAGE / room).rglob("*.py"):
            for imported in python_imports(source) - {""}:
                assert order.index(imported) >= position, f"{source} imports {imported}"


@pytest.mark.parametrize("top", ["csrc", "patallreduce", "hooks", "tests", "benchmarks"])
def test_a_word_that_was_replaced_does_not_come_back(top: str):
    sources = [
        path
        for path in (ROOT / top).rglob("*")
        if path.suffix in {".h", ".cpp", ".cu", ".cuh", ".py", ".pyi"} and path != Path(__file__)
    ]
    assert sources
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources
        for match in re.finditer(REPLACED, path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_word_has_one_line_in_the_table():
    words = re.findall(r"^\| ([^|]+) \|", GLOSSARY, re.MULTILINE)
    assert len(words) > 20
    assert len(words) == len(set(words))


def test_every_decision_says_why():
    """Those of the GPU say once for all that nothing was measured."""
    decisions = re.findall(
        r"^- \*\*.*?(?=^- \*\*|^#)", ARCHITECTURE + "\n#", re.MULTILINE | re.DOTALL
    )
    gpu = ARCHITECTURE.index("### GPU")
    assert len(decisions) > 30
    for decision in decisions:
        assert "\n  Why: " in decision, decision
        if ARCHITECTURE.index(decision) < gpu:
            assert "\n  Measured: " in decision, decision


@pytest.mark.parametrize("walk", ["A bucket, from hook to wire and back", "An arrival, to a plan"])
def test_a_walk_names_each_of_its_files_once_and_counts_them(walk: str):
    text = ARCHITECTURE.split(f"### {walk}\n")[1].split("\n### ")[0]
    files = re.findall(r"`((?:hooks|patallreduce|csrc)/[\w./]+\.\w+)`", text)
    counted = re.search(r"\*\*(\d+) files\*\*", text)
    assert counted
    assert int(counted[1]) == len(files) == len(set(files))
    assert [file for file in files if not (ROOT / file).is_file()] == []
