"""Dependencies point one way: what a folder of the core, or a room of the package, may need."""

import ast
import re
from pathlib import Path

import pytest
from setuptools import find_packages

ROOT = Path(__file__).parents[1]
CORE = ROOT / "csrc"

# These need nothing and are open to all.
OPEN = {"errors.h", "clock.h", "overloaded.h", "wire.h"}
MAY_INCLUDE = {
    "schedule": set(),
    "pricing": {"schedule"},
    "algorithms": {"schedule", "pricing"},
    "selection": {"schedule", "pricing", "algorithms"},
    "prediction": set(),
    "monitor": {"schedule", "selection", "prediction", "transport", "executor"},
    "reduction": set(),
    "transport": set(),
    "executor": {"schedule", "reduction", "transport"},
    "tree_sum": {"algorithms", "reduction", "executor"},
    "gpu": {"schedule", "reduction", "executor"},
}
FOLDERS = sorted(path.name for path in CORE.iterdir() if path.is_dir())
SOURCES = sorted(path for path in CORE.rglob("*") if path.suffix in {".h", ".cpp", ".cu", ".cuh"})


def includes(source):
    """Return (what, quoted) per #include; a folder of the core is only reached by quotes."""
    found = re.findall(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', source.read_text(), re.MULTILINE)
    return [(what, mark == '"') for mark, what in found]


def test_the_sources_are_found():
    assert {"schedule", "algorithms", "bindings"} <= set(FOLDERS)
    assert len(SOURCES) > 10


@pytest.mark.parametrize("folder", sorted(set(FOLDERS) - {"bindings"}))
def test_a_folder_includes_only_what_lies_below_it(folder):
    assert folder in MAY_INCLUDE, f"csrc/{folder} has no place in the layering yet"
    allowed = MAY_INCLUDE[folder] | {folder}
    wrong = [
        f"{source.relative_to(CORE)} includes {what}"
        for source in SOURCES
        if source.relative_to(CORE).parts[0] == folder
        for what, quoted in includes(source)
        if quoted and what not in OPEN and what.split("/")[0] not in allowed
    ]
    assert wrong == []


def test_every_folder_has_a_namespace_of_its_own():
    """Two classes of one name in one namespace are undefined behaviour that no linker reports."""
    for source in SOURCES:
        parts = source.relative_to(CORE).parts
        name = "patallreduce" + (f"::{parts[0]}" if len(parts) > 1 else "")
        opened = re.findall(r"^namespace (\w\S*) \{", source.read_text(), re.MULTILINE)
        assert set(opened) <= {name}, f"{source} opens {opened}, expected {name}"


def classes(text):
    """Names of the classes that a header defines, nested ones as Outer::Inner."""
    text = re.sub(r"//[^\n]*", "", text)
    found, inside = [], []  # inside: per open brace, the class it belongs to
    kinds = r"(?:enum\s+class|enum|class|struct|union)"
    # A definition up to its brace, without a template's parameters; or any other brace.
    token = rf"(?<![<,\w]){kinds}\s+(\w+)(?:\s+final)?(?:\s*:[^:;{{}}()][^;{{}}()]*)?\s*{{|[{{}}]"
    for match in re.finditer(token, text):
        if match[0] == "}":
            inside.pop()
            continue
        inside.append(match[1])
        if match[1]:
            found.append("::".join(filter(None, inside)))
    return found


def test_no_two_headers_of_a_folder_define_a_class_of_one_name():
    owners = {}
    for header in SOURCES:
        if header.suffix in {".h", ".cuh"}:
            folder = header.relative_to(CORE).parts[0] if header.parent != CORE else ""
            for name in classes(header.read_text()):
                owners.setdefault((folder, name), []).append(header.name)
    assert ("executor", "Engine") in owners
    twice = {name: headers for name, headers in owners.items() if len(headers) > 1}
    assert twice == {}


def test_a_second_class_of_one_name_would_be_found():
    text = """
    struct Plan;  // class Plan {
    template <class Value> class Queue final : public Base<Value> {
      struct Item { int value = f({}); };
      void push(struct Item item) { }
    };
    enum class Verb : char { send };
    """
    assert classes(text) == ["Queue", "Queue::Item", "Verb"]


def test_quoted_includes_are_paths_of_the_core():
    """Written from csrc/ on, so that the rule above can see the folder."""
    for source in SOURCES:
        for what, quoted in includes(source):
            assert not quoted or (CORE / what).is_file(), f"{source} includes {what}"


def test_only_the_bindings_know_python_and_nothing_knows_torch():
    for source in SOURCES:
        folder = source.relative_to(CORE).parts[0]
        for what, _ in includes(source):
            top = what.split("/")[0]
            assert top not in {"torch", "ATen", "c10"}, f"{source} includes {what}"
            if top in {"pybind11", "Python.h", "numpy"}:
                assert folder == "bindings", f"{source} includes {what}"


def test_schedules_need_only_the_standard_library():
    """Standard headers have no dot and no slash; <x.h> would be the system's."""
    for source in SOURCES:
        if source.relative_to(CORE).parts[0] in {"schedule", "algorithms"}:
            system = [what for what, quoted in includes(source) if not quoted]
            assert all(re.fullmatch(r"[a-z_]+", what) for what in system), source


def test_constructors_release_the_gil_inside_only():
    """A guard around one would still be there while pybind11 notes the new instance."""
    for source in sorted((CORE / "bindings").glob("*.cpp")):
        text = source.read_text()
        constructors = re.findall(
            r"\.def\(\s*py::init.*?(?=\.def|;\n  [^ ]|\n}|\Z)", text, re.DOTALL
        )
        for constructor in constructors:
            guarded = re.search(r"NoGil|call_guard", constructor)
            assert not guarded, f"{source.relative_to(CORE)}: {constructor}"


# The package's rooms, and its modules that users import by their path; `_core` is open to all.
MAY_IMPORT = {
    "arguments": set(),
    "clocks": set(),
    "ending": set(),
    "distributions": set(),
    "patterns": {"arguments", "text"},
    "statistics": set(),
    "text": set(),
    "gpu": {"text"},
    "pricing": {"arguments", "patterns", "statistics", "text"},
    "records": {"text"},
    "tensorboard": {"records"},
    "decisions": {"arguments", "pricing", "statistics", "text"},
    "communicator": {"arguments", "decisions", "gpu", "pricing", "records", "statistics"},
    "tuning": {"communicator", "decisions", "pricing", "text"},
    "leaves": {"communicator", "pricing"},
    "pictures": {"gpu", "pricing", "records", "text"},
    "page": {"records"},
    "commands": {
        "communicator",
        "decisions",
        "gpu",
        "page",
        "pictures",
        "pricing",
        "records",
        "text",
        "tuning",
    },
    "hooks": {"arguments", "communicator", "leaves", "pricing", "records"},
    "integrations": {"hooks"},
    "__main__": {"commands"},
}


def python_modules():
    """Dotted name -> file, as the package is installed."""
    found = {}
    for package, folder in {"patallreduce": "patallreduce", "patallreduce.hooks": "hooks"}.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = python_modules()


def imported(module):
    """Modules of the package that a module imports anywhere, for types alone included."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: expected the whole path of a module"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(module):
    """None for what is open to all, or not the package's."""
    top, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return name if top == "patallreduce" and name not in {"", "_core"} else None


def test_the_table_of_rooms_is_complete_and_has_no_circle():
    assert set(MAY_IMPORT) == {room(module) for module in MODULES} - {None}
    done = set()
    while ready := {name for name in set(MAY_IMPORT) - done if MAY_IMPORT[name] <= done}:
        done |= ready
    assert done == set(MAY_IMPORT)


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_lies_below_it(name):
    wrong = [
        f"{module} imports {what}"
        for module in MODULES
        if room(module) == name
        for what in imported(module)
        if room(what) not in MAY_IMPORT[name] | {name, None}
    ]
    assert wrong == []


def test_no_module_imports_itself_through_others():
    below = {
        module: {what for what in imported(module) if room(what) and what in MODULES}
        for module in MODULES
        if module != "patallreduce"
    }
    while ready := {module for module, needs in below.items() if not needs & set(below)}:
        for module in ready:
            del below[module]
    assert below == {}


def test_the_public_face_only_exports():
    tree = ast.parse(MODULES["patallreduce"].read_text(encoding="utf-8"))
    assert {type(node) for node in tree.body} == {ast.Expr, ast.ImportFrom, ast.Assign}


def test_the_package_takes_no_names_from_its_public_face():
    """`from patallreduce import Link` inside the package would hide what is needed."""
    for module in set(MODULES) - {"patallreduce"}:
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "patallreduce":
                names = {f"patallreduce.{alias.name}" for alias in node.names}
                assert names <= set(MODULES) | {"patallreduce._core"}, module


def test_every_room_is_installed():
    """setup.py lists what find_packages finds, and that wants an `__init__.py` in each."""
    packages = find_packages(str(ROOT), include=["patallreduce", "patallreduce.*"])
    folders = {".".join(m.split(".")[:-1]) for m in MODULES if m.count(".") > 1}
    assert {*folders, "patallreduce"} - {"patallreduce.hooks"} == set(packages)
