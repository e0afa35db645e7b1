"""Files with anything wrong in them, for the commands and jobs that read them.

    python -m tests.fuzz.files --seconds 600

Whatever stands in a file, a command prints what it found or an error of one line that names the
file, status 2, and a job that makes a communicator raises ValueError: neither ends by another
exception, nor takes long. Ends at the first file that does, and keeps it where it says.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import __main__ as command_line
from patallreduce.commands.records import KINDS
from tests.fuzz import samples

LONG_S = 10.0  # no file here has more than some KB
LONG = 1000  # characters of an error
_WORD = re.compile(r'"[^"\n]*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|null|true|false|[^\s"]')
_WRONG = [
    *("", "null", "true", "-1", "0", "1", "0.5", "1e308", "1e999", "-1e999", "NaN", "Infinity"),
    *('""', '"x"', '"inf"', "[]", "{}", "[[]]", "[null]", "{", "]", ",", "#", "\n", "x", "-0.0"),
    *(str(2**31), str(2**63), str(2**64), str(-(2**63)), "9" * 400, "9" * 5000, "[" * 100_000),
]
_OTHER = [None, True, -1, 0, 0.5, 1e308, math.inf, math.nan, 2**63, "", "x", "inf"]
_OTHER += [[], {}, [[]], [None], {"x": 1}, [0] * 9]


class Reader(NamedTuple):
    """Who reads a file: a sample in which nothing is wrong, its name, and what reads it.

    `read` returns how it was refused, "" if it was not.
    """

    sample: str
    name: str
    read: Callable[[Path], str]


def run_command(*arguments: object) -> str:
    """`python -m patallreduce`; AssertionError for a status that is neither 0 nor 2."""
    said, status = io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", ["patallreduce", *map(str, arguments)]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(said),
    ):
        try:
            command_line.main()
        except SystemExit as ended:
            status = ended.code
    assert status in (None, 2), f"status {status}"
    return said.getvalue() if status else ""


def start_job(path: Path) -> str:
    """Ranks whose environment names a tuning file."""
    with mock.patch.dict(os.environ, PATALLREDUCE_TUNING_FILE=str(path)):
        try:
            pat.Communicator.loopback(1)[0].close()
        except ValueError as error:
            return str(error)
    return ""


def read_network(path: Path) -> str:
    """As `link=` has it read."""
    try:
        assert str(pat.Network.load(path))
    except ValueError as error:
        return str(error)
    return ""


FILE, FOLDER = object(), object()


def _by(*arguments: object, out: str = "") -> Callable[[Path], str]:
    def read(path: Path) -> str:
        given = {FILE: path, FOLDER: path.parent}
        to = ("--out", path.with_name(out)) if out else ()
        return run_command(*(given.get(one, one) for one in arguments), *to)

    return read


def _pattern(path: Path) -> str:
    return run_command("simulate", "--ranks", 3, "--pattern", f"trace:{path}")


READERS = {
    "tuning file": Reader(samples.TUNING, "tuning.json", _by("tune", "--show", FILE)),
    "tuning file, in a job": Reader(samples.TUNING, "tuning.json", start_job),
    "times": Reader(samples.TIMES, "times.jsonl", _by("decide", FILE)),
    "iterations, stragglers": Reader(samples.ITERATIONS, "records", _by("stragglers", FILE)),
    "iterations, report": Reader(samples.ITERATIONS, "records", _by("report", FILE, out="html")),
    "iterations, trace": Reader(samples.ITERATIONS, "records", _by("trace", FILE, out="json")),
    **{
        f"iterations, {kind}": Reader(
            samples.ITERATIONS, "records", _by("plot", FILE, "--kind", kind, out="picture.png")
        )
        for kind in KINDS
    },
    "Open MPI's rules": Reader(samples.OPEN_MPI, "rules.conf", _by("tune", "--from", FILE)),
    "Open MPI's JSON": Reader(samples.OPEN_MPI_JSON, "rules.json", _by("tune", "--from", FILE)),
    "postmortem": Reader(samples.POSTMORTEM, "a-rank-0.json", _by("postmortem", FOLDER)),
    "network": Reader(samples.NETWORK, "network.json", read_network),
    "arrivals": Reader(samples.ARRIVALS, "trace.txt", _pattern),
}  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, sample: str) -> bytes:
    """A sample with one to three things wrong: a value, a word, a line, its end, a byte."""
    text = sample
    for _ in range(draw(st.integers(1, 3))):
        harm = draw(st.sampled_from([_other_value, _other_value, _other_word, _other_line, _end]))
        text = harm(draw, text) if text else text
    content = bytearray(text.encode())
    if content and draw(st.integers(0, 9)) == 9:
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


def _other_value(draw: st.DrawFn, text: str) -> str:
    """Of JSON: of the whole text, or of one of its lines."""
    lines = text.splitlines() or [text]
    for part in (text, draw(st.sampled_from(lines))):
        try:
            slots = list(_slots(entry := json.loads(part)))
        except (ValueError, RecursionError):
            continue
        if slots:
            holder, key = draw(st.sampled_from(slots))
            holder[key] = draw(st.sampled_from(_OTHER))
            return text.replace(part, json.dumps(entry), 1)
    return _other_word(draw, text)


def _slots(entry: Any) -> Iterator[tuple[Any, Any]]:
    keys: Iterable[Any] = ()
    if isinstance(entry, dict):
        keys = entry
    elif isinstance(entry, list):
        keys = range(len(entry))
    for key in keys:
        yield entry, key
        yield from _slots(entry[key])


def _other_word(draw: st.DrawFn, text: str) -> str:
    words = [match.span() for match in _WORD.finditer(text)] or [(0, len(text))]
    begin, end = draw(st.sampled_from(words))
    other = draw(st.sampled_from(words))
    return text[:begin] + draw(st.sampled_from([*_WRONG, text[slice(*other)]])) + text[end:]


def _other_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = draw(st.integers(0, len(lines) - 1))
    lines[at : at + 1] = draw(st.sampled_from([[], [lines[at]] * 2, [lines[0]]]))
    return "".join(lines)


def _end(draw: st.DrawFn, text: str) -> str:
    return text[: draw(st.integers(0, len(text)))]


def check(reader: Reader, folder: Path, content: bytes) -> str:
    """Have it read; AssertionError, or whatever it raised, if that was wrong.

    Returns:
        How it was refused, as `Reader.read`.
    """
    path = folder / reader.name
    path.write_bytes(content)
    begun_s = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refusal = reader.read(path)
    took_s = time.monotonic() - begun_s
    assert took_s < LONG_S, f"took {took_s:.1f} s"
    if refusal:  # of a folder's only file the folder is enough
        assert str(folder) in refusal, f"names no file: {refusal[:1000]}"
        assert len(refusal.splitlines()) == 1, f"of several lines: {refusal[:1000]}"
        assert len(refusal) < LONG, f"long: {refusal[:1000]}"
    return refusal


def examine(reader: Reader, folder: Path, examples: int, number: int) -> None:
    """So many files, drawn by that number; the smallest that is wrong raises."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged(reader.sample))
    def examined(content: bytes) -> None:
        check(reader, folder, content)

    examined()


def main() -> None:
    """For so many seconds, all readers in turn."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=600, help="of each reader (%(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="patallreduce-files-"))
    examples = 100
    for name in options.readers:
        until_s, rounds = time.monotonic() + options.seconds, 0
        one = partial(examine, READERS[name], folder, examples)
        while time.monotonic() < until_s:
            try:
                one(options.seed + rounds)
            except BaseException:
                print(f"{name}: see {folder / READERS[name].name}", flush=True)
                raise
            rounds += 1
        print(f"{name}: {rounds * examples} files, nothing found", flush=True)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


if __name__ == "__main__":
    main()
