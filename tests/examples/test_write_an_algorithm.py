"""The example's algorithm is right for any P, and its claims hold."""

import sys

import pytest
import torch
import write_an_algorithm
from write_an_algorithm import hubs, prices, run

import patallreduce as pat


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 13])
def test_it_is_proved_and_sums(ranks):
    schedule = hubs(ranks)
    pat.verify(schedule)
    buckets = [torch.arange(50.0) * (rank + 1) for rank in range(ranks)]
    run(schedule, buckets)
    expected = torch.arange(50.0) * (ranks * (ranks + 1) // 2)
    assert all(bucket.equal(expected) for bucket in buckets)


def test_what_runs_it_runs_other_schedules():
    buckets = [torch.full((12,), float(rank)) for rank in range(4)]
    run(pat.schedule("slt", 4, 6, [0, 0, 1, 0]), buckets)
    assert all(bucket.equal(torch.full((12,), 6.0)) for bucket in buckets)


def test_a_wrong_one_does_not_run():
    step = pat.Step("recv", 1, 0, 1)
    with pytest.raises(pat.ScheduleError, match="rank 0 step 0"):
        run(pat.Schedule.from_steps([[step], []], 1), [torch.zeros(1), torch.zeros(1)])


def test_it_wins_where_latency_counts_and_is_no_worse_while_ranks_arrive_together():
    for (size, pattern), (mine_ms, ring_ms) in prices(8).items():
        if size == "1 KiB":
            assert mine_ms < ring_ms / 2
        if pattern == "together":
            assert mine_ms < ring_ms


def test_it_tells(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["write_an_algorithm.py", "--ranks", "5"])
    write_an_algorithm.main()
    said = capsys.readouterr().out
    assert "every rank has torch's sums" in said
    assert "hubs all_reduce, ranks 3, segments 3" in said
    assert said.count("late by 50 ms") == 3
