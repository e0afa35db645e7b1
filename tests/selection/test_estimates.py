"""Closed forms for many ranks, held against the simulation they stand for."""

import pytest

import patallreduce as pat
from patallreduce import _core

LINK = pat.Link(20e-6, 25e6, 5e9)
MESSAGE_BYTES = 4 << 20
TRANSFER_S = MESSAGE_BYTES / LINK.bytes_per_s


def estimate(name, arrivals_s, segments):
    return _core.find_algorithm(name).estimate(arrivals_s, segments, MESSAGE_BYTES, LINK)


def patterns(ranks):
    return {
        "balanced": [0.0] * ranks,
        "one late": [0.0] * (ranks - 1) + [3 * TRANSFER_S],
        "one a little late": [0.0] * (ranks - 1) + [TRANSFER_S / 2],
        "staggered": [TRANSFER_S * rank / ranks for rank in range(ranks)],
        "one early": [0.0] + [2 * TRANSFER_S] * (ranks - 1),
    }


@pytest.mark.parametrize("pattern", sorted(patterns(2)))
@pytest.mark.parametrize("ranks", [2, 8, 33])
@pytest.mark.parametrize("segments", [16, 128])
def test_a_chain(ranks, segments, pattern):
    arrivals_s = patterns(ranks)[pattern]
    estimated_s = estimate("slt", arrivals_s, segments)
    schedule = pat.schedule("slt", ranks, segments, arrivals_s)
    simulated = pat.simulate(schedule, LINK, MESSAGE_BYTES, arrivals_s)
    assert estimated_s == pytest.approx(simulated.finish_s, rel=0.03)


@pytest.mark.parametrize("name", ["ring", "recursive_doubling", "rabenseifner"])
@pytest.mark.parametrize("ranks", [2, 8, 12, 33])
def test_balanced(name, ranks):
    segments = {"ring": ranks, "recursive_doubling": 1}.get(name, 1 << (ranks.bit_length() - 1))
    estimated_s = estimate(name, [0.0] * ranks, segments)
    simulated = pat.simulate(pat.schedule(name, ranks, segments), LINK, MESSAGE_BYTES)
    assert max(estimated_s) == pytest.approx(max(simulated.finish_s), rel=0.08)


def test_a_ring_whose_parts_are_cut():
    estimated_s = estimate("ring", [0.0] * 8, 64)
    simulated = pat.simulate(pat.schedule("ring", 8, 64), LINK, MESSAGE_BYTES)
    assert max(estimated_s) == pytest.approx(max(simulated.finish_s), rel=0.03)


@pytest.mark.parametrize("name", ["ring", "recursive_doubling", "rabenseifner"])
@pytest.mark.parametrize("pattern", sorted(patterns(2)))
def test_the_others_are_upper_bounds_to_one_percent(name, pattern):
    arrivals_s = patterns(16)[pattern]
    segments = 1 if name == "recursive_doubling" else 16
    estimated_s = estimate(name, arrivals_s, segments)
    schedule = pat.schedule(name, 16, segments)
    simulated = pat.simulate(schedule, LINK, MESSAGE_BYTES, arrivals_s)
    assert max(simulated.finish_s) <= max(estimated_s) * 1.01
