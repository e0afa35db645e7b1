"""What a page is given: numbers packed, unknown ones marked, timelines chosen."""

import base64
import json
import math
import re
import struct
from dataclasses import replace

import pytest

from patallreduce.page import moments, write_page
from patallreduce.page.microseconds import UNKNOWN, packed_times
from patallreduce.page.model import model_data, paces_s
from tests.records.made_up import make_iteration

NAN = math.nan


def unpacked(text):
    return [number for (number,) in struct.iter_unpack("<i", base64.b64decode(text))]


def run(arrivals, **how):
    return [make_iteration(n, times, at_s=10.0 * n, **how) for n, times in enumerate(arrivals)]


def test_times_are_rounded_to_microseconds_and_bounded():
    assert unpacked(packed_times([0.0, 1.5e-6, -0.25, NAN])) == [0, 2, -250_000, UNKNOWN]
    assert unpacked(packed_times([1e9, -1e9])) == [2**31 - 1, -(2**31 - 1)]


def test_matrices_are_by_iteration_then_rank():
    data = model_data(run([(1.0, 1.5, 1.0), (1.0, 1.0, 1.2)], predicted_s=(1.0, 1.4, 1.0)))

    assert (data["ranks"], unpacked(data["iterations"])) == (3, [0, 1])
    assert unpacked(data["lateness"]) == [0, 500_000, 0, 0, 0, 200_000]
    assert unpacked(data["error"]) == [0, -100_000, 0, 0, 400_000, -200_000]


def test_of_unknown_arrivals_nothing_is_guessed():
    data = model_data(run([(1.0, NAN, 1.2), (1.0, 1.1, 1.2)]))

    assert unpacked(data["lateness"]) == [UNKNOWN] * 3 + [-100_000, 0, 100_000]
    assert unpacked(data["error"]) == [UNKNOWN] * 6


def test_a_pace_needs_the_iteration_before():
    iterations = run([(1.0, 2.0), (1.0, 3.0), (1.0, 2.0), (1.0, NAN), (1.0, 2.0)])
    del iterations[1]

    assert paces_s(iterations) == pytest.approx([NAN, NAN, 9.0, 11.0], nan_ok=True)
    assert unpacked(model_data(iterations)["pace"])[:2] == [UNKNOWN, UNKNOWN]


def test_the_sentences_are_the_straggler_reports():
    data = model_data(run([(1.0, 1.5, 1.0)] * 6))

    assert "rank 1 is late by 500.0 ms since iteration 0" in data["sentences"]
    assert data["table"].split()[0] == "median"  # headings
    assert "not known" in data["won"]


def test_shares_of_algorithms_are_by_bucket():
    (share,) = model_data(run([(1.0, 1.5)] * 4))["shares"]

    assert (share["bucket"], share["elements"], share["algorithm"]) == (0, 100, "slt")
    assert (share["share"], share["planned_share"]) == (1.0, 1.0)


def test_a_timeline_has_activities_and_buckets():
    data = model_data([make_iteration(4, (2.0, NAN)), make_iteration(5, (2.0, 5.0))])["timelines"]
    times = unpacked(data["times"])

    assert data["buckets"] == [[[0, "slt", True]]] * 2
    second = 1_000_000
    assert times[18:] == [
        *(0, 0),  # computation
        *(2 * second, 5 * second),
        *(2 * second, UNKNOWN),  # the last rank waits for nobody
        *(5 * second, UNKNOWN),
        *(5 * second, 5 * second),  # communication
        *(6 * second, 6 * second),
        *(2 * second, 5 * second),  # arrival, predicted, finish
        *(UNKNOWN, UNKNOWN),
        *(6 * second, 6 * second),
    ]
    assert times[:4] == [0, UNKNOWN, 2 * second, UNKNOWN]


def test_without_room_the_worst_and_every_nth_are_kept():
    iterations = run([(1.0, 1.0 + (0.5 if n in {13, 37} else 0.1)) for n in range(100)])
    each = 2 * (6 + 3)

    assert moments.kept(iterations, room=100 * each).positions == tuple(range(100))
    few = moments.kept(iterations, room=20 * each)
    assert {13, 37} <= {*few.positions}
    assert {*range(0, 100, few.every)} <= {*few.positions}
    assert (few.worst, few.every) == (10, 10)
    assert moments.kept(iterations, room=1).positions == (0,)


def test_what_has_no_place_on_one_page_is_refused():
    with pytest.raises(ValueError, match="expected iterations in order, got 3 after 3"):
        model_data([make_iteration(3), make_iteration(3)])
    with pytest.raises(ValueError, match="2 and 3 ranks"):
        model_data([make_iteration(0), make_iteration(1, (1.0, 1.0, 1.0))])
    with pytest.raises(ValueError, match="one rank or more, got none"):
        model_data([make_iteration(0, ())])


def test_a_name_cannot_end_the_data(tmp_path):
    pytest.importorskip("plotly")
    made = make_iteration()
    odd = replace(made, buckets=(replace(made.buckets[0], algorithm="</script><b>"),))

    write_page(tmp_path / "page.html", [[odd]], title="odd")

    (data,) = models_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert data["shares"][0]["algorithm"] == "</script><b>"


def models_of(page):
    found = re.findall(r'<script type="application/json" class="model">(.*?)</script>', page)
    return [json.loads(data) for data in found]


def test_the_page_holds_all_models_and_needs_no_network(tmp_path):
    pytest.importorskip("plotly")
    models = [[make_iteration(n, model=model) for n in range(3)] for model in (2, 7)]
    path = tmp_path / "new" / "page.html"

    write_page(path, models, title="</title> of <models>")

    page = path.read_text(encoding="utf-8")
    assert [data["model"] for data in models_of(page)] == [2, 7]
    assert not re.search(r"<(?:script|link|img)[^>]*\b(?:src|href)=", page.split("<body>")[0])
    assert "<title>&lt;/title&gt; of &lt;models&gt;</title>" in page
