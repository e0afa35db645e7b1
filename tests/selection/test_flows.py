"""The closed form of direct exchange, by rank, against simulated ports that messages share."""

import math
import random

import pytest

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.networks import Network
from patallreduce.pricing.schedules import schedule
from patallreduce.pricing.selection import choose_segments
from patallreduce.pricing.simulation import simulate


def told_and_simulated(arrivals_s, elements, link, segments=None):
    """When ranks have their results, seconds: told by a planner, and simulated."""
    ranks = len(arrivals_s)
    exchange = _core.find_algorithm("direct_exchange", "all_reduce")
    segments = segments or exchange.segments(ranks, 4 * elements, elements, link)
    half_s = (link.latency_s + link.transfer_s(4 * elements) / link.partners / ranks) / 2
    first_s = min(arrivals_s)
    hints = [float(round((at_s - first_s) / half_s)) for at_s in arrivals_s]
    made = _core.generate("direct_exchange", ranks, segments, hints, segment_time_s=2.0)
    simulated = (_core.Simulation(made), 4 * elements, [], arrivals_s, 1)
    (finish_s,), _ = _core.simulate_together([simulated], link, ([], []), "first_ready", True)
    key = ("direct_exchange", segments, hints, 2.0)
    return _core.Planner(ranks, link).finish_s([(elements, 4)], [arrivals_s], [key]), finish_s


def some_late(ranks, late, segments=None):
    """The same, in transfers of the message since the last arrival; the first ones are late."""
    elements, link = 1 << 24, pat.Link(100e-6, 25e6, 5e9, port_share=0.25)
    transfer_s = link.transfer_s(4 * elements)
    last_s = 1.5 * transfer_s
    both = told_and_simulated([last_s] * late + [0.0] * (ranks - late), elements, link, segments)
    return [[(at_s - last_s) / transfer_s for at_s in all_s] for all_s in both]


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize("partners", [1, 1.5, 3, 5, 7])
def test_who_fills_a_port_with_several_partners_is_done_sooner(partners, late):
    """Of 8 ranks: each pair has a seventh of the data or more to exchange."""
    elements = 1 << 24
    link = pat.Link(100e-6, 25e6, 5e9, port_share=0.25, partners=partners)
    port_s = link.transfer_s(4 * elements) / partners
    last_s = 1.5 * port_s
    told, simulated = told_and_simulated([last_s] * late + [0.0] * (8 - late), elements, link)
    took = [
        [(at_s - last_s * (late > 0)) / port_s for at_s in all_s] for all_s in (told, simulated)
    ]
    assert took[0] == pytest.approx(took[1], rel=0.12)
    if late == 0:
        assert max(took[0]) == pytest.approx(2 * 7 / 8, rel=0.12)


@pytest.mark.parametrize("message_bytes", [1 << 10, 1 << 13, 1 << 16, 1 << 19])
@pytest.mark.parametrize("change_share", [0, 0.2, 0.5])
def test_to_change_partners_costs_what_messages_do_not_hide(change_share, message_bytes):
    link = pat.Link(300e-6, 25e6, 5e9, change_share=change_share)
    segments = choose_segments("direct_exchange", 8, message_bytes, message_bytes // 4, link)
    made = schedule("direct_exchange", 8, segments)
    network = Network.of_ports(link, 8, shared_ports=False)
    key = ("direct_exchange", segments, [0.0] * 8, 0.0)
    told_s = _core.Planner(8, link).finish_s([(message_bytes // 4, 4)], [[0.0] * 8], [key])
    took_s = max(simulate(made, network, message_bytes).finish_s)
    assert max(told_s) == pytest.approx(took_s, rel=0.15)


@pytest.mark.parametrize("buckets", [1, 4, 16])
@pytest.mark.parametrize("latency_s", [1e-4, 1e-3, 20e-3])
def test_sums_of_one_bucket_wait_while_values_of_others_are_sent(latency_s, buckets):
    """What no message hides of a direct exchange is a latency; of one that is short, two."""
    link = pat.Link(latency_s, 125e6, 5e9, port_share=25e-9 / latency_s)
    elements = (1 << 22) // buckets
    exchange = _core.find_algorithm("direct_exchange", "all_reduce")
    segments = exchange.segments(6, 4 * elements, elements, link)
    arrivals_s = [[0.001 * bucket] * 6 for bucket in range(buckets)]
    simulation = _core.Simulation(_core.generate("direct_exchange", 6, segments, [0.0] * 6))
    by_bucket, _ = _core.simulate_together(
        [(simulation, 4 * elements, [], row, 1) for row in arrivals_s],
        link,
        ([], []),
        "first_ready",
        True,
    )
    told_s = _core.Planner(6, link).finish_s(
        [(elements, 4)] * buckets,
        arrivals_s,
        [("direct_exchange", segments, [0.0] * 6, 0.0)] * buckets,
    )
    assert max(told_s) == pytest.approx(max(map(max, by_bucket)), rel=0.01)


@pytest.mark.parametrize("late", [1, 3, 4])
def test_who_owns_little_of_a_direct_exchange_has_all_results_first(late):
    """Late ranks, to whom everybody sends nothing but sums."""
    told, simulated = some_late(8, late)
    assert told == pytest.approx(simulated, rel=0.05)
    assert (max(told[:late]) < 0.9 * min(told[late:])) == (late > 1)


def test_the_rank_that_owns_one_segment_more_keeps_all_waiting():
    """Three of 13 that come early own two of 16 segments, and send out 15 times as much."""
    told, simulated = some_late(16, 3, segments=16)
    assert max(told) == pytest.approx(max(simulated), rel=0.15)
    assert max(told) > 2 * 15 / 16


def test_every_rank_of_drawn_exchanges_is_told_within_a_few_percent():
    """Of the time from the last arrival to the last result, as a root mean square."""
    drawn = random.Random(5)
    errors = []
    for _ in range(100):
        ranks = drawn.choice([3, 4, 5, 6, 8, 12, 16])
        latency_s = drawn.choice([2e-5, 1e-4, 1e-3, 2e-2])
        link = pat.Link(latency_s, 10 ** drawn.uniform(7.2, 9.3), 5e9, port_share=1e-5 / latency_s)
        elements = int(10 ** drawn.uniform(5, 7))
        late_s = drawn.uniform(0, 3) * link.transfer_s(4 * elements)
        late = drawn.randrange(1, ranks)
        arrivals_s = [late_s * drawn.uniform(0.95, 1)] * late + [0.0] * (ranks - late)
        if drawn.random() < 0.3:
            arrivals_s = [drawn.uniform(0, late_s) for _ in range(ranks)]
        told_s, finish_s = told_and_simulated(arrivals_s, elements, link)
        took_s = max(finish_s) - max(arrivals_s)
        errors += [(a - b) / took_s for a, b in zip(told_s, finish_s, strict=True)]
    assert math.sqrt(sum(error**2 for error in errors) / len(errors)) < 0.05
