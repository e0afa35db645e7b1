"""Ports: how wide each is, told from rings of neighbours; and on an emulated network."""

import random
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce.communicator.port_meter import measure_ports, pair_rate


def rings_of(ports, noise=0.0):
    """What a ring measures where ports are so wide; how many were measured."""
    drawn, rings = random.Random(1), []

    def pair_rates(order):
        assert sorted(order) == list(range(len(ports)))
        rings.append(order)
        return [
            min(ports[order[place - 1]], ports[port]) * drawn.uniform(1 - noise, 1)
            for place, port in enumerate(order)
        ]

    return pair_rates, rings


@st.composite
def mostly_wide(draw):
    narrow = draw(st.lists(st.sampled_from([0.5, 0.25, 0.1]), max_size=11))
    wide = draw(st.integers(max(len(narrow) + 1, 3), len(narrow) + 12))
    return draw(st.permutations(narrow + [1.0] * wide))


@settings(max_examples=300)
@given(mostly_wide())
def test_every_port_is_found_where_most_are_wide(ports):
    pair_rates, rings = rings_of(ports, noise=0.1)
    found = measure_ports(pair_rates, len(ports))
    if min(ports) == 1.0:
        assert found == []
        assert len(rings) == 2
    else:
        assert found == pytest.approx(ports, rel=0.11)


def test_half_of_all_ports_narrow_in_turn():
    ports = [1.0, 0.5] * 4
    assert measure_ports(rings_of(ports)[0], 8) == ports


def test_few_ports_cannot_be_told_apart():
    for count in (1, 2):
        assert measure_ports(rings_of([1.0, 0.1][:count])[0], count) == []


def test_ports_that_are_nearly_alike_are_alike():
    assert measure_ports(rings_of([1.0, 0.9, 0.8, 1.0])[0], 4) == []


def test_a_disturbed_message_never_makes_a_pair_seem_faster():
    latency_s, rate, at_once = 0.02, 25e6, 100_000
    long_s, short_s = (latency_s + (size - at_once) / rate for size in (1 << 21, 1 << 19))
    assert pair_rate(1 << 21, long_s, short_s, latency_s) == pytest.approx(rate)
    for late_s in (0.01, 0.03, 0.2):
        apart = pair_rate(1 << 21, long_s, short_s + late_s, latency_s)
        assert rate <= apart <= 1.06 * rate
        assert pair_rate(1 << 21, long_s + late_s, short_s, latency_s) < rate


def all_reduced(elements, **options):
    """The schedule of a call without a plan, and the link that was measured: of all alike."""
    with pat.Communicator(timeout_s=20, **options) as communicator:
        values = torch.full((elements,), float(communicator.rank + 1))
        communicator.all_reduce(values)
        assert bool((values == 10).all())
        return communicator.stats()[-1]["schedule"], communicator.link


def told_by_all(processes, network, *args, **options):
    first, *others = processes.on(network, partial(all_reduced, *args, **options))
    assert all(other == first for other in others)
    return first


@pytest.mark.alone
@pytest.mark.network
def test_a_narrow_port_is_measured_and_calls_without_a_plan_exchange_directly(processes, emulated):
    with emulated(4, [200e6, 200e6, 50e6, 200e6]) as network:
        schedule, link = told_by_all(processes, network, 1 << 18)
    assert schedule.startswith("direct_exchange")
    assert link.ports == pytest.approx((4, 4, 1, 4), rel=0.1)


@pytest.mark.alone
@pytest.mark.network
def test_where_a_connection_does_not_fill_a_port_all_exchange_at_once(processes, emulated):
    """A window of 64 KiB in 10 ms is about 60 Mbit/s, of 200."""
    with emulated(4, 200e6, latency_s=0.005, window_bytes=64 << 10) as network:
        schedule, link = told_by_all(processes, network, 1 << 20, monitor=False)
    assert schedule.startswith("direct_exchange")
    assert link.bytes_per_s < 15e6
    assert link.partners > 1.5


@pytest.mark.alone
@pytest.mark.network
def test_ports_are_free_while_a_message_is_on_a_long_way(processes, emulated):
    """Else direct exchange, with its many messages at once, would seem slow there."""
    with emulated(4, 200e6, latency_s=0.01) as network:
        schedule, link = told_by_all(processes, network, 1 << 20, monitor=False)
    assert schedule.startswith("direct_exchange")
    assert 0.01 <= link.latency_s < 0.015
    assert link.port_share < 0.1
    assert link.ports == ()
