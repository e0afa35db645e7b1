"""The arrivals benchmark: its delays, its figures, its arguments, and all of it end to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.arrivals.__main__ import parse_arguments
from benchmarks.arrivals.report import compared, draw, figure_s, print_tables
from benchmarks.arrivals.worker import (
    PATTERNS,
    Case,
    cases,
    draw_delays_s,
    random_values,
)
from benchmarks.lab.measures import Sample, relative

ROOT = Path(__file__).parents[2]


def record(algorithm, samples, **changed):
    return {
        "algorithm": algorithm,
        "mode": "one-late",
        "max_delay_s": 0.5,
        "ranks": 2,
        "bytes": 4096,
        "network": "200mbit",
        "Mbeta_s": 0.1,
        "samples": [{"arrivals_s": a, "finishes_s": f} for a, f in samples],
        **changed,
    }


def test_one_late_delays_rank_1_alone_and_always():
    assert draw_delays_s("one-late", 0.3, 4, 3, seed=1) == [[0.0, 0.3, 0.0, 0.0]] * 3


def test_rand_late_draws_anew_for_ranks_and_iterations():
    delays_s = draw_delays_s("rand-late", 0.3, 8, 200, seed=1)
    drawn = [delay for row in delays_s for delay in row]
    assert len(set(drawn)) == 8 * 200
    assert min(drawn) >= 0
    assert max(drawn) <= 0.3
    assert sum(drawn) / len(drawn) == pytest.approx(0.15, abs=0.01)


def test_delays_depend_on_the_seed_alone():
    first = draw_delays_s("rand-late", 0.3, 8, 5, seed=1)
    assert draw_delays_s("rand-late", 0.3, 8, 5, seed=1) == first
    assert draw_delays_s("rand-late", 0.3, 8, 9, seed=1)[:5] == first  # for fewer iterations too
    assert draw_delays_s("rand-late", 0.3, 8, 5, seed=2) != first


@pytest.mark.parametrize("mode", PATTERNS)
def test_other_patterns_keep_to_the_largest_delay(mode):
    delays_s = draw_delays_s(mode, 0.3, 8, 100, seed=1)
    assert delays_s == draw_delays_s(mode, 0.3, 8, 100, seed=1)
    assert max(map(max, delays_s)) <= 0.3
    assert min(map(min, delays_s)) >= 0
    assert max(map(max, delays_s)) > 0.25
    different = len({tuple(row) for row in delays_s})
    assert different == 1 if mode in {"alternating", "three-late"} else different > 20


def test_every_rank_passes_its_edge_before_anyone_arrives():
    """Line 3 of Fig. 9: the computation grows with the largest delay."""
    case = Case("rand-late", 1.0, 4096, 1, computation_s=0.1)
    latest_edge_s = case.half_s(1.0)
    first_arrival_s = 2 * case.half_s(0.0)
    assert latest_edge_s <= first_arrival_s
    assert 2 * case.half_s(0.7) - first_arrival_s == pytest.approx(0.7)


def test_all_ranks_know_the_exact_sum_of_random_values():
    drawn = [random_values(1000, rank, 5, seed=3) for rank in range(5)]
    values = [mine.double() for mine, _ in drawn]
    for _, expected in drawn:
        assert torch.equal(expected.double(), sum(values))
    assert not torch.equal(values[0], values[1])
    assert not torch.equal(values[0], random_values(1000, 0, 5, seed=4)[0].double())


def test_samples_are_told_from_the_first_arrival_on():
    told = relative(Sample([100.5, 100.25], [101.0, 101.25]))
    assert told == {"arrivals_s": [0.25, 0.0], "finishes_s": [0.75, 1.0]}


def test_figures():
    late = record("ring", [([0.0, 0.5], [0.8, 0.6])])
    assert figure_s(late, "average_elapsed") == pytest.approx([0.45])
    assert figure_s(late, "after") == pytest.approx([0.3])
    assert figure_s(late, "beyond") == pytest.approx([0.2])


def test_auto_is_compared_with_the_best_in_the_same_iteration():
    """The delays of iterations differ more than the algorithms do."""
    lengths = (1.0, 2.0, 9.0)
    ring = record("ring", [([0.0, 0.0], [t, t]) for t in lengths])
    auto = record("auto", [([0.0, 0.0], [t * 1.1, t * 1.1]) for t in lengths])
    slow = record("slt", [([0.0, 0.0], [t * 3, t * 3]) for t in lengths])
    assert compared([slow, auto, ring], "after") == ("ring", pytest.approx(1.1))
    assert compared([slow, ring], "after") is None
    assert compared([auto], "after") is None


def test_a_picture_for_each_parameter_with_several_values(tmp_path, capsys):
    records = [
        record(name, [([0.0, 0.5], [0.8, 0.6])], mode=mode, max_delay_s=delay_s, ranks=ranks)
        for ranks in (2, 4)
        for mode in ("one-late", "rand-late")
        for delay_s in (0.0, 0.5)
        for name in ("ring", "auto")
    ]
    assert [path.name for path in draw(records, tmp_path)] == [
        "arrivals_delay.png",
        "arrivals_ranks.png",
    ]
    print_tables(records)
    printed = capsys.readouterr().out
    assert "4 ranks on 200mbit, 4 KiB, rand-late; M*beta 100.0 ms" in printed
    assert printed.count("1.000") == 2 * 2 * 2 * 2  # ranks, modes, delays, figures


def test_iterations_pair_up_with_delays():
    options = parse_arguments(["--delays", "0", "1", "--iterations", "9", "4"])
    plan = {**vars(options), "bytes": [64]}
    assert [(c.mode, c.max_delay_s, c.iterations) for c in cases(plan)] == [
        ("one-late", 0.0, 9),
        ("one-late", 1.0, 4),
        ("rand-late", 0.0, 9),
        ("rand-late", 1.0, 4),
    ]
    assert parse_arguments(["--delays", "0", "1", "--iterations", "9"]).iterations == [9, 9]


@pytest.mark.parametrize(
    "bad",
    [
        "--delays 0 1 2 --iterations 9 4",
        "--delays -1",
        "--iterations 0",
        "--ranks 1",
        "--modes both",
        "--computation-s -1",
        "--warm-up -1",
    ],
)
def test_bad_arguments_are_refused(bad, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(bad.split())
    assert bad.split()[0] in capsys.readouterr().err


@pytest.mark.slow
def test_records_tables_and_picture(tmp_path):
    command = [sys.executable, "-m", "benchmarks.arrivals", "--network", "shm", "--ranks", "2"]
    command += ["--bytes", "64KiB", "--delays", "0", "0.5", "--iterations", "2"]
    command += ["--warm-up", "1", "--computation-s", "0.01", "--algorithms", "prr", "auto", "gloo"]
    run = subprocess.run(
        [*command, "--out", str(tmp_path), "--timeout-s", "40"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    records = [json.loads(line) for line in (tmp_path / "arrivals.jsonl").read_text().splitlines()]
    assert len(records) == 2 * 2 * 3
    late = [r for r in records if r["mode"] == "one-late" and r["max_delay_s"] == 0.5]
    assert late
    for r in late:
        assert len(r["samples"]) == 2
        for sample in r["samples"]:
            first, last = sample["arrivals_s"]
            assert last - first == pytest.approx(0.5, abs=0.4)  # beside other tests
        assert r["average_elapsed_s"] > 0.01
    assert (tmp_path / "arrivals_delay.png").read_bytes().startswith(b"\x89PNG")
    assert "2 ranks sharing one machine, 64 KiB, rand-late" in run.stdout
