"""Files with anything wrong in them; `python -m tests.fuzz.files` looks for more."""

import pytest

from tests.fuzz import samples
from tests.fuzz.files import READERS, check, examine


@pytest.mark.parametrize("name", READERS)
def test_a_file_in_which_nothing_is_wrong_is_read(name, tmp_path):
    assert check(READERS[name], tmp_path, READERS[name].sample.encode()) == ""


@pytest.mark.parametrize("name", READERS)
def test_whatever_is_wrong_in_a_file_is_said_by_its_name(name, tmp_path):
    examine(READERS[name], tmp_path, examples=20, number=1)


def changed(sample, old, new):
    assert old in sample
    return sample.replace(old, new, 1).encode()


FOUND = [
    ("tuning file", b"\x80"),
    ("tuning file", b"[" * 100_000),
    ("tuning file, in a job", changed(samples.TUNING, ": 1,", f": {'9' * 5000},")),
    ("times", b"[" * 100_000),
    ("times", changed(samples.TIMES, "0.001", "9" * 400)),
    ("times", changed(samples.TIMES, "false", "null")),
    ("iterations, report", changed(samples.ITERATIONS, '"iteration": 1,', '"iteration": 2,')),
    ("Open MPI's rules", b"\x80"),
    ("Open MPI's rules", b"rule-file-version-"),
    ("Open MPI's JSON", b"[" * 100_000),
    ("postmortem", changed(samples.POSTMORTEM, '"rank": 0', '"rank": null')),
    ("network", changed(samples.NETWORK, '"nodes": [', '"nodes": [ 0,')),
]


@pytest.mark.parametrize(("name", "content"), FOUND)
def test_files_that_ended_otherwise_once_are_refused(name, content, tmp_path):
    assert check(READERS[name], tmp_path, content) != ""
