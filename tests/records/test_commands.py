"""The commands that read records, run in this process to save its start."""

import json
import sys

import pytest

from patallreduce.records.files import save_iterations


@pytest.fixture
def records(tmp_path, make_iteration):
    path = tmp_path / "records.jsonl"
    arrivals_s, predicted_s = (1.0, 1.5, 1.0), (1.0, 1.4, 1.0)
    save_iterations(
        path,
        [make_iteration(n, arrivals_s, at_s=3.0 * n, predicted_s=predicted_s) for n in range(6)],
    )
    return path


@pytest.fixture
def run(command):
    def run(*arguments):
        status, said = command(*arguments)
        assert status == 0, said
        return said

    return run


@pytest.fixture
def failing(command):
    def failing(*arguments):
        status, said = command(*arguments)
        assert status == 2
        return said

    return failing


def test_stragglers(run, records):
    assert "rank 1 is late by 500.0 ms since iteration 0" in run("stragglers", records)
    assert "no rank is late" in run("stragglers", records, "--threshold-ms", 600)
    assert "no rank is late" in run("stragglers", records, "--ratio", 0.6)


@pytest.mark.parametrize("kind", ["heat-map", "predicted", "timeline"])
def test_plot(run, records, tmp_path, kind):
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "picture.png"

    assert str(out) in run("plot", records, "--kind", kind, "--out", out)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_trace(run, records, tmp_path):
    out = tmp_path / "new" / "trace.json"

    assert str(out) in run("trace", records, "--out", out)
    assert json.loads(out.read_text())["traceEvents"]


def test_report(run, tmp_path, make_iteration):
    pytest.importorskip("plotly")
    path, out = tmp_path / "records.jsonl", tmp_path / "new" / "report.html"
    save_iterations(path, [make_iteration(n, (1.0, 1.5), model=n % 2) for n in range(10)])

    assert str(out) in run("report", path, "--out", out)
    assert out.read_text().count('class="model"') == 2
    run("report", path, "--out", out, "--model", 1)
    assert out.read_text().count('class="model"') == 1


def test_a_report_without_plotly_says_what_to_install(failing, records, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)

    said = failing("report", records, "--out", tmp_path / "a.html")
    assert "pip install 'patallreduce[report]'" in said


@pytest.mark.parametrize("name", ["plot", "report", "stragglers", "trace"])
def test_bad_files_are_named(failing, tmp_path, make_iteration, name):
    absent, empty, wrong, cut = (tmp_path / name for name in ("absent", "empty", "wrong", "cut"))
    empty.write_text("")
    whole = json.dumps(make_iteration().to_dict()).replace("NaN", "null")
    cut.write_text(whole + "\n" + whole[:-20])
    wrong.write_text('{"iteration": 0}\n')

    assert "No such file" in failing(name, absent)
    assert f"{empty}: no iterations" in failing(name, empty)
    assert f"{wrong}, line 1: not a record of an iteration" in failing(name, wrong)
    assert f"{cut}, line 2: expected JSON" in failing(name, cut)


def test_a_suffix_that_cannot_be_drawn_is_refused(failing, records, tmp_path):
    pytest.importorskip("matplotlib")

    assert "Format 'txt' is not supported" in failing("plot", records, "--out", tmp_path / "a.txt")


def test_a_picture_without_matplotlib_says_what_to_install(failing, records, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    said = failing("plot", records, "--out", tmp_path / "a.png")
    assert "pip install 'patallreduce[viz]'" in said


def test_of_several_models_one_is_chosen(run, failing, tmp_path, make_iteration):
    path = tmp_path / "records.jsonl"
    save_iterations(path, [make_iteration(n, (1.0, 1.5), model=n % 2) for n in range(10)])

    assert "has models [0, 1]; choose one by --model" in failing("stragglers", path)
    assert "5 iterations of 2 ranks" in run("stragglers", path, "--model", 1)
    assert "no iterations of model 7, only of [0, 1]" in failing("stragglers", path, "--model", 7)
