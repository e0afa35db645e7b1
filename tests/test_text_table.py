"""The same cells with rich and without."""

import sys

import pytest

from patallreduce.text.table import text_table

HEADINGS = ("name", "late\nms", "why")
ROWS = [["ring", "1.5", "[it is]"], ["recursive", "10", "no"]]


@pytest.mark.parametrize("rich", [True, False])
def test_columns_are_aligned(rich, monkeypatch):
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)
    lines = text_table(HEADINGS, ROWS, left=(0, 2)).splitlines()
    assert [line.split() for line in lines[-2:]] == [
        ["ring", "1.5", "[it", "is]"],
        ["recursive", "10", "no"],
    ]
    first, second = lines[-2:]
    assert first.index("ring") == second.index("recursive")
    assert first.index("1.5") + 3 == second.index("10") + 2
    assert first.index("[it") == second.index("no")
    assert "late" in "\n".join(lines[:2])
    assert lines[-3].strip(" ─-") == ""


def test_a_table_of_one_line_headings_is_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert text_table(["a", "b"], [["1", "22"]]) == "a   b\n-----\n1  22"
