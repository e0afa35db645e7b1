"""The benchmark of the simulator: statistics, calibration, arguments, and all of it end to end."""

import json
import math
import random
import sys

import pytest

import patallreduce as pat
from benchmarks.simulated import __main__ as command
from benchmarks.simulated.__main__ import parse_arguments
from benchmarks.simulated.calibration import CALLS, fitted
from benchmarks.simulated.cells import (
    PATTERNS,
    cells,
    delays_s,
    elapsed_s,
    geometric_error,
    simulated_finishes_s,
    summary,
    with_places,
)

LINK = pat.Link(1e-4, 25e6)


def record(algorithm, message_bytes, segments, samples, **changed):
    """As the worker writes it, of four ranks."""
    return {
        "algorithm": algorithm,
        "bytes": message_bytes,
        "ranks": 4,
        "segments": segments,
        **{"segment_time_s": 0.0, "latency_s": 0.0, "sum_s": 0.0},
        "hints_s": None,
        "samples": [{"arrivals_s": a, "finishes_s": f} for a, f in samples],
        **changed,
    }


def as_simulated(made, network):
    """The record of a network that does what the simulator says."""
    finishes_s = simulated_finishes_s(made, network, 0.0)
    pairs = zip(made["samples"], finishes_s, strict=True)
    return {**made, "samples": [{**sample, "finishes_s": f} for sample, f in pairs]}


def test_the_error_of_ratios_is_symmetric():
    assert geometric_error([1.0, 1.0]) == 0
    assert geometric_error([2.0]) == pytest.approx(1)
    assert geometric_error([0.5]) == pytest.approx(1)
    assert geometric_error([2.0, 0.5, 1.0]) == pytest.approx(2 ** (2 / 3) - 1)


@pytest.mark.parametrize("ratios", [[], [0.0], [1.0, -1.0]])
def test_what_has_no_ratio_is_refused(ratios):
    with pytest.raises(ValueError):  # noqa: PT011 - math's own message for the logarithm
        geometric_error(ratios)


def test_patterns_are_late_by_as_much_as_they_may():
    assert delays_s("balanced", 4, 0.2, 1) == [0.0] * 4
    assert delays_s("one-late", 4, 0.2, 1) == [0, 0.2, 0, 0]
    assert delays_s("alternating", 4, 0.2, 1) == [0, 0.2, 0, 0.2]
    drawn = delays_s("uniform", 4, 0.2, 1)
    assert drawn == delays_s("uniform", 4, 0.2, 1) != delays_s("uniform", 4, 0.2, 2)
    assert 0 <= min(drawn) <= max(drawn) <= 0.2


def test_places_are_known_later_but_to_a_last_rank_that_is_late():
    assert with_places([0.0, 5.0, 1.0], 0.1) == pytest.approx([0.1, 5.0, 1.1])
    assert with_places([0.0, 1.05, 1.0], 0.1) == pytest.approx([0.1, 1.1, 1.1])


def test_elapsed_is_the_median_of_the_samples_means():
    samples = [([0, 0, 0, 1], [2, 2, 2, 3]), ([0] * 4, [3] * 4), ([0] * 4, [9] * 4)]
    assert elapsed_s(record("ring", 4096, 4, samples)) == 3


def test_cells_of_a_network_that_the_simulator_describes_are_right():
    arrivals_s = [0.0, 0.01, 0.002, 0.0]
    made = [
        as_simulated(record(name, 1 << 20, 8, [(arrivals_s, None)], pattern="one-late"), LINK)
        for name in ("ring", "slt", "two_tree")
    ]
    found = cells(made, LINK, 0.0)
    assert [cell["error"] for cell in found] == pytest.approx([0, 0, 0], abs=1e-9)
    slower = cells(made, pat.Link(1e-4, 12.5e6), 0.0)
    assert all(cell["error"] > 0.5 for cell in slower)


def test_slt_dynamic_is_simulated_in_the_real_order_and_waits_for_its_places():
    arrivals_s = [0.03, 0.01, 0.02, 0.0]
    samples = [(arrivals_s, None)]
    dynamic = record("slt_dynamic", 1 << 20, 16, samples)
    foreseen = record("slt", 1 << 20, 16, samples, hints_s=arrivals_s)
    [[*at_once]] = simulated_finishes_s(dynamic, LINK, 0.0)
    assert [at_once] == simulated_finishes_s(foreseen, LINK, 0.0)
    [[*told]] = simulated_finishes_s(dynamic, LINK, 0.005)
    assert sum(told) > sum(at_once)


def test_the_summary_names_the_worst_cell_on_either_side():
    made = [
        {"algorithm": "ring", "bytes": 1024, "pattern": "balanced", "measured_s": 1.0},
        {"algorithm": "slt", "bytes": 1024, "pattern": "balanced", "measured_s": 1.0},
        {"algorithm": "ring", "bytes": 2048, "pattern": "one-late", "measured_s": 1.0},
    ]
    for cell, simulated in zip(made, (1.5, 0.5, 1.0), strict=True):
        cell.update(simulated_s=simulated, error=simulated - 1)
    found = summary(made)
    worst = {"algorithm": "slt", "bytes": 1024, "pattern": "balanced", "error": -0.5}
    assert found["cells"] == 3
    assert found["worst"] == worst
    assert found["error"] == pytest.approx(math.exp((math.log(1.5) + math.log(2)) / 3) - 1)
    assert found["error_by_algorithm"]["slt"] == pytest.approx(1)
    assert found["error_by_bytes"]["2048"] == 0
    assert list(found["error_by_pattern"]) == ["balanced", "one-late"]


def calibration_records():
    """(records, network): calls of ranks that wake up to 1 ms apart, on a known network."""
    model = pat.LogGP(60e-6, 20e-6, 0.0, 1 / 23.9e6, 1e10)
    network = pat.Network(model, shared_ports=True, burst_bytes=33_000, call_s=1.2e-3)
    draw = random.Random(1)
    records = []
    for name, call in CALLS.items():
        samples = [([draw.uniform(0, 1e-3) for _ in range(4)], None) for _ in range(3)]
        made = record(call.algorithm, call.message_bytes, call.segments or 4, samples)
        records.append({**as_simulated(made, network), "call": name, "reduce_bytes_per_s": 1e10})
    return records, network


def test_calibration_finds_the_network_that_its_calls_ran_on():
    records, network = calibration_records()
    found = fitted(records)
    assert isinstance(found.links, pat.LogGP)
    assert 1 / found.links.gap_per_byte_s == pytest.approx(23.9e6, rel=0.02)
    assert found.links.overhead_s == pytest.approx(20e-6, rel=0.2)
    assert found.links.latency_s == pytest.approx(60e-6, rel=0.3)
    assert found.call_s == pytest.approx(1.2e-3, rel=0.1)
    assert found.burst_bytes == pytest.approx(33_000, rel=0.1)
    test_cells = [as_simulated(r, network) for r in records]
    for cell in cells(test_cells, found, 0.0):
        assert cell["error"] == pytest.approx(0, abs=0.05)


def test_calibration_ends_where_a_long_message_seemed_to_take_less_than_a_short_one():
    records, _ = calibration_records()
    for made in records:
        if made["call"] == "short":
            for sample in made["samples"]:
                sample["finishes_s"] = [at_s + 30 for at_s in sample["finishes_s"]]
    assert fitted(records).links.gap_per_byte_s > 0


@pytest.mark.parametrize(
    "arguments", [["--bytes", "4KiB", "8KiB", "--iterations", "1", "1", "1"], ["--ranks", "1"]]
)
def test_arguments_that_do_not_fit_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(arguments)
    assert "expected" in capsys.readouterr().err


def test_one_number_of_iterations_is_for_every_size():
    options = parse_arguments(["--bytes", "4KiB", "8KiB", "--iterations", "2"])
    assert options.iterations == [2, 2]
    assert options.patterns == list(PATTERNS)
    assert options.algorithms == list(pat.algorithms())


@pytest.mark.slow
@pytest.mark.timeout(200)  # several processes import torch, on two cores
def test_all_of_it_end_to_end(network_lab, tmp_path, monkeypatch):
    module = ["-m", "benchmarks.simulated", "--ranks", "3", "--bytes", "64KiB"]
    options = ["--iterations", "1", "--patterns", "one-late", "--algorithms", "ring", "slt_dynamic"]
    with network_lab.start_python(*module, *options, "--out", str(tmp_path)) as process:
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "2 cells: geometric mean error" in output
    assert (tmp_path / "simulated.png").stat().st_size > 0
    lines = (tmp_path / "simulated.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [r["algorithm"] for r in records if "pattern" in r] == ["ring", "slt_dynamic"]
    assert records[-1]["cells"] == 2
    monkeypatch.setattr(sys, "argv", ["simulated", "--again", "--out", str(tmp_path)])
    monkeypatch.setattr(command, "end_on_sigterm", lambda: None)
    command.main()
    assert json.loads((tmp_path / "simulated.jsonl").read_text().splitlines()[-1]) == records[-1]
