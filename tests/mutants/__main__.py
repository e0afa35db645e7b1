"""Does any test notice?  Builds each mutant and runs the tests that should.

    python -m tests.mutants [PART OF A NAME ...]

Most would cost time, none of these a wrong sum; those of guards.py let one rank hold up or mislead
others, those of strangers.py let strangers speak.
Works in a copy of the tree. With ccache (CC="ccache gcc" CXX="ccache g++") a mutant takes a minute;
without, everything is compiled each time. Prints a line per mutant, keeps
one JSON line per mutant, and ends with 1 if one survived.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import libucx

from .listed import COST_TIME, MUTANTS
from .mutant import Mutant

TOP = Path(__file__).parents[2]
PROGRAM = Path("build/strict/core_tests")
TESTS = [
    *("tests/selection", "tests/prediction", "tests/monitor", "tests/hooks/test_layers.py"),
    *("tests/pricing/test_bursts.py", "tests/pricing/test_processors.py"),
    *("tests/decisions/test_regression.py", "tests/test_link.py"),
]
PYTEST = ["-q", "-x", "--no-header", "-p", "no:cacheprovider"]
# As `make test` does: what measures times comes last, with nothing beside it.
STAGES = [
    ["-n", "2", "-m", "not slow and not alone", *TESTS],
    ["-n", "0", "-m", "alone and not slow", *TESTS],
]
WITHOUT_TRAINING_STAGES = [
    ["-n", "0", "tests/executor/test_protocol.py", "tests/native"],
    ["-n", "0", "tests/transport", "tests/communicator/test_secret.py"],
]


def main() -> int:
    """Try the mutants that are asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="only mutants whose names have this in them")
    parser.add_argument("--out", type=Path, default=Path("out/mutants.jsonl"))
    options = parser.parse_args()
    wanted = [
        mutant
        for mutant in MUTANTS
        if not options.names or any(name in mutant.name for name in options.names)
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    survived = 0
    with (
        tempfile.TemporaryDirectory(prefix="patallreduce-mutants-") as folder,
        options.out.open("w", encoding="utf-8") as file,
    ):
        tree = Path(folder) / "tree"
        copy_tree(tree)
        for mutant in wanted:
            killer, seconds = killed_by(tree, mutant)
            survived += killer is None
            record = {"name": mutant.name, "file": mutant.file, "killed_by": killer}
            print(json.dumps(record), file=file, flush=True)
            print(f"{seconds:5.0f} s  {mutant.name}: {killer or 'SURVIVES'}", flush=True)
    print(f"{len(wanted) - survived} of {len(wanted)} mutants killed")
    return int(survived > 0)


def copy_tree(tree: Path) -> None:
    """Copy what git knows, and what is built."""
    listed = run(TOP, "git", "ls-files", "--cached", "--others", "--exclude-standard")
    for name in listed.stdout.splitlines():
        if (TOP / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, tree / name)
    for library in (TOP / "patallreduce").glob("*.so"):
        shutil.copy2(library, tree / "patallreduce" / library.name)
    if PROGRAM.parent.exists():
        shutil.copytree(TOP / PROGRAM.parent, tree / PROGRAM.parent)
    # As it is installed: otherwise hooks would be those of the installed package.
    (tree / "patallreduce" / "hooks").symlink_to(tree / "hooks")


def killed_by(tree: Path, mutant: Mutant) -> tuple[str | None, float]:
    """Return the test that notices, or nothing; and the seconds that took."""
    began_s = time.monotonic()
    file = tree / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.right) != 1:
        raise SystemExit(
            f"{mutant.file}: expected {mutant.right!r} once, found it {text.count(mutant.right)} "
            f"times (mutant: {mutant.name})"
        )
    file.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    try:
        build(tree, mutant)  # without the one before it, if nothing else
        killer = None
        for stage in STAGES if mutant in COST_TIME else WITHOUT_TRAINING_STAGES:
            killer = killer or failing(tree, stage)
    finally:
        file.write_text(text, encoding="utf-8")
    return killer, time.monotonic() - began_s


def failing(tree: Path, stage: list[str]) -> str | None:
    """Return the first test that fails, or nothing."""
    tests = run(tree, sys.executable, "-m", "pytest", *PYTEST, *stage)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", tests.stdout, re.M)
    if (tests.returncode != 0) != bool(failed):
        raise SystemExit(f"pytest ended with {tests.returncode}\n{tests.stdout}")
    return failed.group(1) if failed else None


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command there, which finds that folder's modules first."""
    # What a mutant leaves unused is no error.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PATALLREDUCE_WERROR": "0"}
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )


def build(tree: Path, mutant: Mutant) -> None:
    """Compile the core of the tree, and for a guard the native tests."""
    commands = [[sys.executable, "setup.py", "-q", "build_ext", "--inplace"]]
    if mutant not in COST_TIME:
        include = Path(libucx.__file__).parent / "include"
        commands.append(["make", "-j2", str(PROGRAM), f"INCLUDE={include}"])
    for command in commands:
        done = run(tree, *command)
        if done.returncode != 0:
            raise SystemExit(f"does not compile:\n{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
