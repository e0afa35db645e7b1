"""`register` alone finds out who will be late, says so, and names its buckets in the profiler."""

import math
import time

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat

pytestmark = pytest.mark.alone  # it measures times

LATE, LATE_S, ITERATIONS = 1, 0.1, 10
SLOW_LINK = pat.Link(latency_s=50e-6, bytes_per_s=25e6)  # makes plans worth while on any machine


class Sleeper(nn.Module):
    """Computes longer on request, where its progress shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
        self.longer_s = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sleep, then compute."""
        time.sleep(self.longer_s)
        return self.layers(x)


def train(rank, late_s):
    """Train with one late rank; return stats, the report, and the names a profiler saw."""
    torch.manual_seed(0)
    module = Sleeper()
    model = DistributedDataParallel(module)
    handle = pat.register(model, timeout_s=30.0, link=SLOW_LINK)
    module.longer_s = late_s if rank == LATE else 0.0
    with torch.profiler.profile() as profile:
        for _ in range(ITERATIONS):
            model(torch.ones(4, 256)).sum().backward()
            # Start together: only the late rank's own computation makes it late.
            torch.distributed.barrier()
    stats, report = handle.stats(), handle.stragglers()
    handle.close()
    ranges = {event.name for event in profile.events() if "patallreduce" in event.name}
    return stats, report.identify_stragglers(), str(report), ranges


def job():
    """One rank of the job."""
    return train(torch.distributed.get_rank(), LATE_S)


def last_predicted(record):
    return record["predicted_s"].index(max(record["predicted_s"]))


def test_the_late_rank_is_found_and_planned_last(processes):
    results = processes.run(3, job)
    stats, stragglers, text, _ = results[0]

    assert [record["iteration"] for record in stats] == list(range(ITERATIONS))
    settled = stats[3:-1]  # the last one's results are only told when another begins
    # A busy machine delays others now and then.
    most = len(settled) / 2
    assert sum(record["last_rank"] == LATE for record in settled) > most
    assert sum(last_predicted(record) == LATE for record in settled) > most
    # The guard tries now and then how fast the job is without plans.
    planned = [all(bucket["planned"] for bucket in record["buckets"]) for record in settled]
    assert sum(planned) > most
    for record in settled:
        assert record["after_s"] >= 0
        assert record["average_elapsed_s"] >= 0
    assert "slt" in {bucket["algorithm"] for record in settled for bucket in record["buckets"]}
    assert LATE in stragglers
    assert f"rank {LATE} is late by" in text
    seen = {name for _, _, _, ranges in results for name in ranges}
    assert "patallreduce::slt bucket=0" in seen
    assert all(ranges for _, _, _, ranges in results)


def test_other_ranks_know_only_themselves(processes):
    stats, *_ = processes.run(2, job)[1]

    for record in stats[:-1]:
        assert math.isnan(record["start_s"][0])
        assert not math.isnan(record["start_s"][1])
        assert not math.isnan(record["arrival_s"][1])
