"""Clairvoyant as an all-reduce: proved whatever it takes, and never later than what it knows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.bucket import Bucket, make_schedule

LINK = pat.Link(20e-6, 125e6)


def group_late(ranks, late, delay_s):
    return [delay_s * (rank >= ranks - late) for rank in range(ranks)]


def makespan_s(name, message_bytes, arrivals_s, segments=None):
    bucket = Bucket(len(arrivals_s), message_bytes, LINK, segments)
    schedule = make_schedule(name, bucket, arrivals_s)
    return max(pat.simulate(schedule, LINK, message_bytes, arrivals_s).finish_s)


@st.composite
def problems(draw):
    ranks = draw(st.integers(1, 17))
    segment_s = draw(st.sampled_from([0.0, 1e-3, 1.0]))
    seconds = st.floats(0, 100) | st.integers(0, 3).map(float)
    return {
        "name": "clairvoyant",
        "ranks": ranks,
        "segments": draw(st.integers(1, 12 * ranks)),
        "arrivals_s": draw(st.lists(seconds, min_size=ranks, max_size=ranks)),
        "round_s": segment_s * draw(st.floats(1, 2)),
        "latency_s": segment_s * draw(st.floats(0, 1)),
        "sum_s": segment_s * draw(st.floats(0, 0.5)),
    }


@given(problems())
@settings(max_examples=300, derandomize=True, database=None)
def test_proved_whatever_its_times_are(problem):
    pat.verify(pat.schedule(**problem))


@pytest.mark.parametrize("ranks", range(1, 18))
@pytest.mark.parametrize("message_bytes", [1 << 14, 1 << 22])
def test_proved_with_the_times_of_a_link(ranks, message_bytes):
    delay_s = LINK.transfer_s(message_bytes)
    patterns = [[0.0] * ranks, pat.patterns.uniform(ranks, delay_s), *map(list, [range(ranks)])]
    patterns += [group_late(ranks, late, delay_s) for late in (1, 3, ranks // 2)]
    for arrivals_s in patterns:
        pat.verify(make_schedule("clairvoyant", Bucket(ranks, message_bytes, LINK), arrivals_s))


def test_one_name_for_two_collectives():
    arguments = {"ranks": 5, "segments": 20, "arrivals_s": [0, 1, 2, 3, 4], "round_s": 0.5}
    summed_at_3 = pat.schedule("clairvoyant", **arguments, collective="reduce", root=3)
    everywhere = pat.schedule("clairvoyant", **arguments)
    assert (summed_at_3.collective, everywhere.collective) == ("reduce", "all_reduce")
    pat.verify(summed_at_3)
    pat.verify(everywhere)
    assert "clairvoyant" in pat.algorithms("reduce")
    with pytest.raises(pat.ScheduleError, match="latency_s >= 0, got -1"):
        pat.schedule("clairvoyant", **arguments, latency_s=-1)
    with pytest.raises(pat.ScheduleError, match="sum_s >= 0, got nan"):
        pat.schedule("clairvoyant", **arguments, sum_s=float("nan"))


@pytest.mark.parametrize("message_bytes", [1 << 14, 1 << 20, 1 << 24])
@pytest.mark.parametrize("delay", [0.0, 0.3, 3.0])
def test_never_later_than_ring_slt_and_prr(message_bytes, delay):
    delay_s = delay * LINK.transfer_s(message_bytes)
    for arrivals_s in (
        pat.patterns.one_late(9, delay_s),
        pat.patterns.alternating(9, 0.0, delay_s),
        pat.patterns.gamma(9, delay_s, seed=5),
    ):
        rivals = (makespan_s(name, message_bytes, arrivals_s) for name in ("ring", "slt", "prr"))
        assert makespan_s("clairvoyant", message_bytes, arrivals_s) <= 1.01 * min(rivals)


@pytest.mark.parametrize(("ranks", "late"), [(8, 3), (16, 4), (33, 9)])
def test_over_hubs_a_group_of_late_ranks_costs_less_than_a_ring(ranks, late):
    """About (P-1)/(P-k) transfers after the last arrival; a ring takes 2(P-1)/P, a chain 2."""
    message_bytes = 1 << 24
    transfer_s = LINK.transfer_s(message_bytes)
    arrivals_s = group_late(ranks, late, 3 * transfer_s)
    after = makespan_s("clairvoyant", message_bytes, arrivals_s) / transfer_s - 3
    assert (ranks + late - 2) / ranks <= after <= 1.25 * (ranks - 1) / (ranks - late)
    assert after < 0.95 * 2 * (ranks - 1) / ranks
    schedule = make_schedule("clairvoyant", Bucket(ranks, message_bytes, LINK), arrivals_s)
    steps = [step for rank in range(ranks) for step in schedule.steps(rank)]
    sent = sum(step.last - step.first for step in steps if step.verb == "send")
    assert sent == 2 * (ranks - 1) * schedule.segments


def test_runs_of_segments_are_cut_evenly():
    schedule = make_schedule("clairvoyant", Bucket(16, 1 << 14, LINK), [0.0] * 16)
    lengths = {step.last - step.first for rank in range(16) for step in schedule.steps(rank)}
    assert schedule.segments == 256
    assert lengths <= {16, 32, 64, 128}


def test_the_same_for_every_rank_that_asks():
    arguments = {
        "ranks": 11,
        "segments": 176,
        "arrivals_s": pat.patterns.gamma(11, 0.02, seed=2),
        "segment_time_s": 2e-4,
        "latency_s": 1e-5,
        "sum_s": 3e-6,
    }
    schedule = pat.schedule("clairvoyant", **arguments)
    for rank in range(11):
        steps = _core.generate_steps("clairvoyant", rank, **arguments, collective="all_reduce")
        assert steps == schedule.steps(rank)
