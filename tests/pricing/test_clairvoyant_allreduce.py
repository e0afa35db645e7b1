"""The benchmark of clairvoyant all-reduce: its patterns, its search and its table."""

import json

import patallreduce as pat
from benchmarks.allreduce.report import describe_size
from benchmarks.clairvoyant_allreduce.__main__ import main
from benchmarks.clairvoyant_allreduce.cases import PATTERNS, trace_delays, tuned
from benchmarks.clairvoyant_allreduce.report import ratios

LINK = pat.Link(20e-6, 125e6)


def test_patterns_are_delays_up_to_the_largest():
    for ranks in (4, 32, 48):
        late_s = trace_delays(ranks, 2.0)
        assert len(late_s) == ranks
        assert max(late_s) == 2.0
        assert min(late_s) >= 0
    assert len(PATTERNS) == 8
    assert sum(PATTERNS["alternating"](8, 1.0)) == 4


def test_rivals_have_their_best_segments():
    """Doubling and halving finds what trying all powers of two finds."""
    arrivals_s = [0.0, 0.01, 0.0, 0.03]

    def price(name, segments):
        schedule = pat.schedule(name, 4, segments, arrivals_s)
        found = pat.simulate(schedule, LINK, 1 << 20, arrivals_s)
        return max(found.finish_s), found.average_elapsed_s

    best_s, segments = tuned("slt", 4, 1 << 20, LINK, price)["makespan"]
    assert price("slt", segments)[0] == best_s
    assert best_s <= 1.01 * min(price("slt", 2**n)[0] for n in range(12))


def test_no_case_is_below_its_bound_or_above_the_rivals(tmp_path, capsys, monkeypatch):
    arguments = ["it", "--ranks", "4", "8", "--bytes", "65536", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    main()
    lines = (tmp_path / "clairvoyant_allreduce.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 2 * (7 * 3 + 1)
    for record in records:
        assert record["bound"][0] <= record["clairvoyant"][0]
        assert record["bound"][1] <= record["clairvoyant"][1]
        assert ratios(record)[0] <= 1.01
    printed = capsys.readouterr().out
    assert "44 cases" in printed
    assert "worse by more than 1 % in 0" in printed
    assert (tmp_path / "clairvoyant_allreduce.png").stat().st_size > 10_000


def test_sizes_as_text():
    assert [describe_size(size) for size in (1 << 14, 1 << 26)] == ["16 KiB", "64 MiB"]
