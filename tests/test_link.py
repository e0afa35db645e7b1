"""The measured link, from messages whose cost is known."""

import math
import random
from dataclasses import replace

import pytest

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.link import (
    measure,
    measure_change_share,
    measure_partners,
    measure_port_share,
)

LATENCIES_S = [10e-6, 100e-6, 1e-3, 10e-3, 50e-3]
LONGEST_BYTES = 64 << 20  # of a message that the measurement may send
BITS_PER_S = [100e6, 200e6, 1e9, 10e9, 25e9, 100e9, 400e9]


class Measured:
    """A link of a latency and a transfer time by size; counts what its measurement takes."""

    def __init__(self, latency_s, transfer_s, noise=lambda: 1.0):
        self.latency_s, self.transfer_s, self.noise = latency_s, transfer_s, noise
        self.took_s, self.most_bytes = 0.0, 0

    def message_s(self, message_bytes):
        seconds = (self.latency_s + self.transfer_s(message_bytes)) * self.noise()
        self.took_s += seconds
        self.most_bytes = max(self.most_bytes, message_bytes)
        return seconds

    def link(self):
        return measure(self.message_s, 5e9)


@pytest.mark.parametrize("latency_s", LATENCIES_S)
@pytest.mark.parametrize("bits_per_s", BITS_PER_S)
def test_a_hockney_link_is_found(latency_s, bits_per_s):
    bytes_per_s = bits_per_s / 8
    measured = Measured(latency_s, lambda size: size / bytes_per_s)
    link = measured.link()
    assert link.reduce_bytes_per_s == 5e9
    assert link.latency_s == pytest.approx(latency_s, rel=0.1)
    assert link.bytes_per_s == pytest.approx(bytes_per_s, rel=0.01)
    for size in (50_000, 10_000_000):
        assert link.transfer_s(size) == pytest.approx(size / bytes_per_s, rel=0.02, abs=2e-6)
    assert measured.took_s < 6
    assert measured.most_bytes <= LONGEST_BYTES


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("latency_s", LATENCIES_S)
@pytest.mark.parametrize("bits_per_s", BITS_PER_S)
def test_noise_of_a_tenth_does_not_hide_the_bandwidth(latency_s, bits_per_s, seed):
    """Each message takes up to a tenth longer than it should, a twentieth of them twice as long."""
    if latency_s * bits_per_s / 8 > LONGEST_BYTES / 4:
        pytest.skip("no message that may be sent takes four latencies")
    draw = random.Random(seed)
    measured = Measured(
        latency_s,
        lambda size: size * 8 / bits_per_s,
        lambda: 1 + 0.1 * draw.random() if draw.random() > 0.05 else 2.0,
    )
    link = measured.link()
    assert link.latency_s == pytest.approx(latency_s, rel=0.1)
    assert link.bytes_per_s == pytest.approx(bits_per_s / 8, rel=0.1)


def test_what_starts_beside_the_measurement_is_no_latency():
    """As measured where a monitor starts: the first messages take up to five times as long."""
    disturbed = iter([5.0, 3.0] + 10 * [2.0])
    link = Measured(300e-6, lambda size: size / 25e6, lambda: next(disturbed, 1.0)).link()
    assert link.latency_s == pytest.approx(300e-6, rel=1e-3)
    assert link.bytes_per_s == pytest.approx(25e6, rel=0.01)
    for size in (65536, 10_000_000):
        assert link.transfer_s(size) == pytest.approx(size / 25e6, rel=0.02)


def test_bandwidth_by_size_is_found():
    """Long messages at twice the rate, as behind a protocol switch."""

    def transfer_s(size):
        return size / 1e8 if size <= 16384 else 16384 / 1e8 + (size - 16384) / 2e8

    link = Measured(5e-6, transfer_s).link()
    for size in (4096, 16384, 65536, 262144, 10_000_000):
        assert link.transfer_s(size) == pytest.approx(transfer_s(size), rel=0.05)


@pytest.mark.parametrize("latency_s", LATENCIES_S)
@pytest.mark.parametrize("burst_bytes", [4096, 65536, 524288])
def test_what_a_rested_port_lets_through_at_once_does_not_count(latency_s, burst_bytes):
    def transfer_s(size):
        return max(size - burst_bytes, size / 10) / 25e6

    link = Measured(latency_s, transfer_s).link()
    assert link.bytes_per_s == pytest.approx(25e6, rel=0.05)
    for size in (4096, 65536, 10_000_000):  # one behind the other, they find no rested port
        assert link.transfer_s(size) == pytest.approx(size / 25e6, rel=0.05)


def test_on_such_a_port_ranks_that_come_together_take_the_ring():
    """As measured: pieces of a chain, each as fast as a single one, would seem to beat it."""

    def transfer_s(size):
        return max(size - 18_000, size / 10) / 23.8e6

    link = Measured(180e-6, transfer_s).link()
    selector = _core.Selector(8, link)
    assert selector.choose(1 << 20, 4, [0.0] * 8)[0] == "ring"


def test_noise_makes_no_message_faster_than_a_shorter_one():
    noise = {16384: 5.0, 65536: 0.4}

    def message_s(size):
        return (20e-6 + size / 1e9) * noise.get(size, 1)

    link = measure(message_s, 5e9)
    seconds = [seconds for _, seconds in link.transfers_s]
    assert seconds == sorted(seconds)
    assert pat.Link(1e-6, 1e9, transfers_s=link.transfers_s) is not None  # it is a valid table


def test_a_link_of_latency_alone():
    """However fast the transfers, the table stays positive, and the measurement ends."""
    link = measure(lambda message_bytes: 1e-3, 5e9)
    assert link.latency_s == pytest.approx(1e-3)
    assert link.bytes_per_s > 0


def shift_s(name, shift, link, ranks, block_bytes, *, pieces=1, nodes=None, call_s=0.0):
    """As the link meter times a round of a shift: the mean over the ranks."""
    _, blocks, rounds, taking_part = shift
    schedule = pat.schedule(name, ranks, blocks * pieces, collective="shift", nodes=nodes)
    finish_s = pat.simulate(schedule, link, blocks * block_bytes).finish_s
    return (call_s + sum(finish_s[rank] for rank in taking_part) / len(taking_part)) / rounds


def simulated_round_s(link, ranks, nodes=None, call_s=0.0):
    def round_s(block_bytes, pieces=1):
        shift = pat._core.metering_shift(ranks, pieces, [] if nodes is None else nodes)
        of = {"pieces": pieces, "nodes": nodes, "call_s": call_s}
        return shift_s("shift", shift, link, ranks, block_bytes, **of)

    return round_s


def simulated_hop_s(link, ranks, call_s):
    shift = pat._core.metering_long_shift(ranks)
    return lambda: shift_s("long_shift", shift, link, ranks, 1, call_s=call_s)


@pytest.mark.parametrize("ranks", [2, 3, 8, 100])
def test_what_a_call_takes_is_no_latency(ranks):
    """As measured of 8 ranks on 2 processors: most of a round of two is the call."""
    link, call_s = pat.Link(100e-6, 25e6, port_share=0.3, change_share=0.5), 400e-6
    round_s = simulated_round_s(link, ranks, call_s=call_s)
    found = measure(round_s, 5e9, simulated_hop_s(link, ranks, call_s))
    assert found.latency_s == pytest.approx(100e-6, rel=0.15)
    for size in (65536, 10_000_000):
        assert found.transfer_s(size) == pytest.approx(size / 25e6, rel=0.02)
    assert measure_port_share(link, round_s) == pytest.approx(0.3, rel=0.1)
    if ranks == 8:
        swap_s = simulated_swap_s(link, ranks)
        share = measure_change_share(link, ranks, lambda size: call_s + swap_s(size), round_s)
        assert share == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("ranks", [2, 3, 8, 64, 256])
@pytest.mark.parametrize("latency_s", [10e-6, 1e-3, 50e-3])
def test_shifts_tell_the_link_whatever_the_number_of_ranks(ranks, latency_s):
    link = pat.Link(latency_s, 125e6)
    found = measure(simulated_round_s(link, ranks), 5e9)
    assert found.latency_s == pytest.approx(latency_s, rel=0.1)
    assert found.bytes_per_s == pytest.approx(125e6, rel=0.02)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_of_ranks_that_share_nodes_the_link_between_nodes_is_told(count):
    nodes = [node for node in range(count) for _ in range(4)]
    between, uplink_bytes_per_s = pat.Link(1e-3, 125e6), 125e6
    within = pat.Link(2e-6, 10e9)
    network = pat.Network(
        between, nodes=nodes, within_node=within, uplink_bytes_per_s=uplink_bytes_per_s
    )
    found = measure(simulated_round_s(network, len(nodes), nodes), 5e9)
    assert found.latency_s == pytest.approx(1e-3, rel=0.1)
    assert found.bytes_per_s == pytest.approx(125e6, rel=0.02)


@pytest.mark.parametrize("share", [0.1, 0.25, 1.0])
def test_the_share_of_the_latency_that_occupies_a_port_is_found(share):
    link = pat.Link(20e-6, 25e6, 5e9, port_share=share)
    assert measure_port_share(link, simulated_round_s(link, 4)) == pytest.approx(share, rel=0.1)


def test_many_tiny_messages_wait_for_windows_that_open():
    """What rested may send some of them only, until the others' receipt is told."""
    link = pat.Link(20e-3, 118e6, 5e9, port_share=3e-4)
    settled_s, slower = simulated_round_s(link, 4), iter([1.9, 1.7, 1.5, 1.3])
    found = measure_port_share(
        link, lambda size, messages: settled_s(size, messages) * next(slower, 1.0)
    )
    assert found == measure_port_share(link, settled_s)


def test_a_port_share_stays_within_0_and_1():
    link = pat.Link(20e-6, 25e6, 5e9)
    assert measure_port_share(link, lambda message_bytes, messages: 1e-9) == 0
    assert measure_port_share(link, lambda message_bytes, messages: 1.0 * messages) == 1


def simulated_swap_s(link, ranks, noise=lambda: 1.0):
    """As the link meter swaps blocks of every rank with every other."""
    steps = [[] for _ in range(ranks)]
    for distance in range(1, ranks):
        for rank in range(ranks):
            to = (rank + distance) % ranks
            block = rank * ranks + to
            steps[rank].append(pat.Step("send", to, block, block + 1))
            steps[to].append(pat.Step("recv", rank, block, block + 1))
    schedule = pat.Schedule.from_steps(steps, ranks**2, collective="broadcast")

    def swap_s(block_bytes):
        return noise() * max(pat.simulate(schedule, link, ranks**2 * block_bytes).finish_s)

    return swap_s


@pytest.mark.parametrize("ranks", [3, 8])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 1.0])
def test_the_share_of_the_latency_that_changing_partners_takes_is_found(ranks, share):
    link = pat.Link(200e-6, 25e6, change_share=share)
    swap_s = simulated_swap_s(link, ranks)
    round_s = simulated_round_s(link, ranks)
    found = measure_change_share(replace(link, change_share=0.0), ranks, swap_s, round_s)
    assert found == pytest.approx(share, abs=0.03)


def test_a_change_share_stays_within_0_and_1():
    link = pat.Link(20e-6, 25e6)
    round_s = simulated_round_s(link, 8)
    assert measure_change_share(link, 8, lambda _: 1e-9, round_s) == 0
    assert measure_change_share(link, 8, lambda _: 1.0, round_s) == 1


@pytest.mark.parametrize("latency_s", [10e-6, 1e-3, 50e-3])
@pytest.mark.parametrize(("ranks", "partners"), [(3, 2), (8, 1), (8, 1.8), (8, 4), (32, 5)])
def test_how_many_partners_fill_a_port_is_found(latency_s, ranks, partners):
    link = pat.Link(latency_s, 125e6, port_share=2e-6 / latency_s, partners=partners)
    found = measure_partners(replace(link, partners=1.0), ranks, simulated_swap_s(link, ranks))
    assert found == pytest.approx(partners, rel=0.1)


def test_connections_that_open_their_windows_are_waited_for():
    link = pat.Link(5e-3, 8e6, partners=2.9)
    settled_s, slower = simulated_swap_s(link, 8), iter([3.0, 1.5, 1.25])
    found = measure_partners(
        replace(link, partners=1.0), 8, lambda size: settled_s(size) * next(slower, 1.0)
    )
    assert found == pytest.approx(2.9, rel=0.1)


@pytest.mark.parametrize("partners", [1, 1.2])
def test_noise_is_no_partner(partners):
    link, drawn = pat.Link(50e-6, 25e6, partners=partners), random.Random(7)
    for _ in range(20):
        swap_s = simulated_swap_s(link, 8, lambda: drawn.uniform(0.9, 1.3))
        assert measure_partners(replace(link, partners=1.0), 8, swap_s) == 1


def test_no_more_partners_fill_a_port_than_there_are():
    link = pat.Link(50e-6, 25e6, partners=100)
    assert measure_partners(
        replace(link, partners=1.0), 8, simulated_swap_s(link, 8)
    ) == pytest.approx(7)
    assert measure_partners(replace(link, partners=1.0), 8, lambda _: 0.0) == pytest.approx(7)


@pytest.mark.parametrize("partners", [0.5, math.inf, math.nan])
def test_partners_that_cannot_be_are_refused(partners):
    with pytest.raises(ValueError, match="Link.partners: expected 1 or more"):
        pat.Link(1e-6, 1e9, partners=partners)
