"""Ports: how wide each is, told from rings of neighbours; and on an emulated network."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lab import Network
from benchmarks.lab.namespaces import available
from patallreduce.communicator.port_meter import measure_ports, pair_rate

PROGRAM = """
import torch, torch.distributed as dist
import patallreduce as pat
dist.init_process_group("gloo")
comm = pat.Communicator(timeout_s=60.0)
values = torch.full((1 << 18,), float(dist.get_rank() + 1))
comm.all_reduce(values)
assert bool((values == 10).all())
print("|".join([comm.stats()[-1]["schedule"], *(f"{port:.2f}" for port in comm.link.ports)]))
comm.close()
dist.destroy_process_group()
"""


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


@settings(max_examples=300, deadline=None)
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


def said_by_all(tmp_path, text, rates_bit_s, **network):
    """What 4 ranks of that program say last, all the same: its parts."""
    if not available() or available().how != "root":
        pytest.skip(f"no namespaces: {available().reason or available().how}")
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    with Network(4, rates_bit_s, **network) as emulated:
        results = emulated.run([sys.executable, str(program)], timeout_s=50, show="none")
    (line,) = {result.output.strip().splitlines()[-1] for result in results}
    return line.split("|")


@pytest.mark.network
def test_a_narrow_port_is_measured_and_calls_without_a_plan_exchange_directly(tmp_path):
    schedule, *ports = said_by_all(tmp_path, PROGRAM, [200e6, 200e6, 50e6, 200e6])
    assert schedule.startswith("direct_exchange")
    assert [float(port) for port in ports] == pytest.approx([4, 4, 1, 4], rel=0.1)


LONG = """
import torch
import torch.distributed as dist
import patallreduce as pat
dist.init_process_group("gloo")
with pat.Communicator(timeout_s=20, monitor=False) as communicator:
    link = communicator.link
    communicator.all_reduce(torch.zeros(1 << 20))
    told = [communicator.stats()[-1]["schedule"].split()[0], link.bytes_per_s, link.latency_s]
    print(*told, link.port_share, link.partners, link.ports, sep="|")
dist.destroy_process_group()
"""


@pytest.mark.alone
@pytest.mark.network
def test_where_a_connection_does_not_fill_a_port_calls_exchange_with_all_at_once(tmp_path):
    """A window of 64 KiB in 10 ms is about 60 Mbit/s, of 200."""
    limited = {"latency_s": 0.005, "window_bytes": 64 << 10}
    schedule, bytes_per_s, _, _, partners, _ = said_by_all(tmp_path, LONG, 200e6, **limited)
    assert schedule == "direct_exchange"
    assert float(bytes_per_s) < 15e6
    assert float(partners) > 1.5


@pytest.mark.alone
@pytest.mark.network
def test_ports_are_free_while_a_message_is_on_a_long_way(tmp_path):
    """Else direct exchange, with its many messages at once, would seem slow there."""
    told = said_by_all(tmp_path, LONG, 200e6, latency_s=0.01)
    schedule, _, latency_s, port_share, _, ports = told
    assert schedule == "direct_exchange"
    assert 0.01 <= float(latency_s) < 0.015
    assert float(port_share) < 0.1
    assert ports == "()"
