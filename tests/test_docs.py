"""What the documents say exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import patallreduce as pat
from patallreduce.communicator.communicator import environment

ROOT = Path(__file__).parents[1]
# What a user reads: README and the pages beside it.
README = "\n".join(
    page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
)
DOCUMENTS = [README] + [
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "GPU.md")
]


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


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=["README", "ARCHITECTURE", "CONTRIBUTING", "GPU"]
)
def test_make_targets_named_in_documents_exist(document):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", document):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=["README", "ARCHITECTURE", "CONTRIBUTING", "GPU"]
)
def test_files_named_in_documents_exist(document):
    for path in re.findall(r"`((?:csrc|tests|examples|benchmarks|hooks)/[\w./-]+)`", document):
        assert (ROOT / path).exists(), path


def test_commands_in_the_readme_exist():
    for command in re.findall(r"python -m patallreduce (\w+)", README):
        result = subprocess.run(
            [sys.executable, "-m", "patallreduce", command, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr


def test_public_names_are_documented():
    for name in pat.__all__:
        assert (getattr(pat, name).__doc__ or "").strip(), name


def test_environment_variables_are_in_the_readme():
    for name in environment.VARIABLES:
        assert f"PATALLREDUCE_{name}" in README, name
