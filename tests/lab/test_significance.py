"""What the statistics of recorded arrivals say, on records made up so that the answer is known."""

import json
import random
import sys

import pytest

from benchmarks import significance
from benchmarks.significance import absorbed, row, tables

pytest.importorskip("scipy")


def record(algorithm, run_times_s, late_s=0.0, **changed):
    return {
        "algorithm": algorithm,
        "mode": "one-late",
        "max_delay_s": late_s,
        "ranks": 2,
        "bytes": 4096,
        "network": "200mbit",
        "samples": [
            {"arrivals_s": [0.0, late_s], "finishes_s": [time_s / 2, time_s]}
            for time_s in run_times_s
        ],
        **changed,
    }


def noisy(time_s, seed, count=24):
    drawn = random.Random(seed)
    return [time_s * (1 + 0.05 * drawn.random()) for _ in range(count)]


def test_a_difference_is_told_from_chance():
    ring, same, faster = (
        record(name, noisy(time_s, seed))
        for name, time_s, seed in [("ring", 1.0, 1), ("same", 1.0, 2), ("faster", 0.9, 3)]
    )
    found = {r["algorithm"]: row(r, ring, [], permutations=2000) for r in (ring, same, faster)}
    assert found["ring"][3:6] == ["1", "", ""]
    assert float(found["same"][5]) > 0.05
    assert float(found["faster"][5]) < 0.01
    assert float(found["faster"][3]) == pytest.approx(0.9, abs=0.02)
    low, high = map(float, found["faster"][4].split(" - "))
    assert 0.85 < low <= float(found["faster"][3]) <= high < 0.95


def test_absorption_is_that_of_the_same_kind():
    late = record("slt", [1.3] * 3, 0.5)
    records = [
        late,
        record("slt", [1.0] * 3),
        record("slt", [7.0] * 3, ranks=3),
        record("ring", [9.0] * 3),
    ]
    assert absorbed(late, records) == pytest.approx((1.0 - 1.3 + 0.5) / 1.0)
    assert absorbed(late, [late]) is None
    assert absorbed(records[1], records) is None


def test_tables(monkeypatch, capsys, tmp_path):
    records = [
        record(name, noisy(1.0 + late_s, seed, 8), late_s)
        for late_s in (0.0, 0.5)
        for seed, name in enumerate(("ring", "slt"))
    ]
    assert len(tables(records, "slt", permutations=100)) == 2
    assert tables(records, "gloo") == []
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    monkeypatch.setattr(sys, "argv", ["significance", str(path)])
    significance.main()
    said = capsys.readouterr().out
    assert "2 ranks, 4KiB, one-late by at most 0.5 s, 8 iterations, against ring" in said
    assert said.count("slt ") == 2
