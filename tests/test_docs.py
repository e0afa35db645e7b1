"""What the documents say exists."""

import argparse
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

import patallreduce as pat
from patallreduce.communicator import environment

ROOT = Path(__file__).parents[1]
# What a user reads: README and the pages beside it.
README = "\n".join(
    page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
)
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
DOCUMENTS = [*PAGES, ROOT / "benchmarks" / "results" / "README.md"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
of_every_document = pytest.mark.parametrize(
    "document", sorted(DOCUMENTS), ids=lambda path: str(path.relative_to(ROOT))
)


class Parsed(BaseException):
    """The arguments are right; nothing has run yet."""


def commands(text):
    """The commands `python -m ...` of this project in a text, each a list of arguments."""
    text = text.replace("\\\n", " ").replace("$(RIVALS)", "gloo openmpi")
    text = re.sub(r"\$\(or .*", "FOLDER", text)
    found = re.findall(r"python3? -m ((?:benchmarks|patallreduce)\b[^`\n#|>]*)", text)
    return [shlex.split(command) for command in found]


@pytest.fixture(name="parse")
def parse_fixture(monkeypatch, capsys):
    """Run a command up to where it has parsed its arguments; what is wrong with them."""
    understand = argparse.ArgumentParser.parse_args

    def parse_args(parser, given=None, namespace=None):
        understand(parser, given, namespace)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)

    def said_by(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        for name in (module, f"{module}.__main__"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises((Parsed, SystemExit)):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        return capsys.readouterr()

    def parse(module, *arguments):
        wrong = said_by(module, *arguments).err
        if "arguments are required" not in wrong:
            return wrong
        # The text names the command without all of its arguments: those that it names exist.
        subcommand = [argument for argument in arguments[:1] if not argument.startswith("-")]
        known = said_by(module, *subcommand, "--help").out
        assert known, wrong
        options = [argument for argument in arguments if argument.startswith("--")]
        return " ".join(option for option in options if option not in known)

    return parse


def test_every_algorithm_has_a_source_and_is_in_the_readme():
    for name, source in pat.algorithms().items():
        assert len(source) > 20, name
        assert f"`{name}`" in README


def test_every_algorithm_file_names_cost_and_source():
    names = set(pat.algorithms())
    for name in names:
        source = next((ROOT / "csrc" / "algorithms").rglob(f"{name}.cpp"))
        head = source.read_text(encoding="utf-8")[:2000]
        for word in ("messages", "sum order", "source"):
            assert word in head, (name, word)


@of_every_document
def test_make_targets_named_in_documents_exist(document):
    for target in re.findall(r"`make ([a-z-]+)`", document.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


@of_every_document
def test_files_named_in_documents_exist(document):
    paths = r"`((?:csrc|tests|examples|benchmarks|hooks)/[\w./-]+)`"
    for path in re.findall(paths, document.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


@of_every_document
def test_commands_in_documents_exist_and_take_their_arguments(document, parse):
    for command in commands(document.read_text(encoding="utf-8")):
        assert parse(*command) == "", shlex.join(command)


def test_commands_of_the_makefile_exist_and_take_their_arguments(parse):
    found = commands(MAKEFILE)
    assert len(found) > 20
    for command in found:
        assert parse(*command) == "", shlex.join(command)


def test_wrong_commands_would_be_found(parse):
    text = "`python -m benchmarks.arrivals --dealys 1`, `python -m patallreduce schedule --steams`"
    wrong, part = commands(text)
    assert "--dealys" in parse(*wrong)
    assert parse(*part) == "--steams"


def test_public_names_are_documented():
    for name in pat.__all__:
        assert (getattr(pat, name).__doc__ or "").strip(), name


def test_environment_variables_have_a_line_of_the_table():
    table = (ROOT / "docs" / "environment.md").read_text()
    told = set(re.findall(r"^\| `PATALLREDUCE_(\w+)` \|", table, re.MULTILINE))
    assert told == set(environment.VARIABLES)
