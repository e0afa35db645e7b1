"""The same cells with rich and without."""

import sys

import pytest

from patallreduce.text.table import text_table

HEADINGS = ("name", "late\nms", "why")
ROWS = [["ring", "1.5", "[it is]"], ["recursive", "10", "no"]]


@pytest.fixture(name="rich", params=[True, False])
def rich_fixture(request, monkeypatch):
    if request.param:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)


@pytest.mark.usefixtures("rich")
def test_columns_are_aligned():
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


@pytest.mark.usefixtures("rich")
def test_a_long_cell_is_shown_to_its_end():
    rows = [["ring", "1.5", "why " * 100 + "so"]]
    assert text_table(HEADINGS, rows, left=(0, 2)).endswith(rows[0][-1])


def test_a_table_of_one_line_headings_is_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert text_table(["a", "b"], [["1", "22"]]) == "a   b\n-----\n1  22"
