"""The measured link, from rings whose cost is known."""

import pytest

import patallreduce as pat
from patallreduce.pricing.link import measure, measure_port_share


def ring_s(ranks, latency_s, transfer_s):
    return lambda message_bytes: 2 * (ranks - 1) * (latency_s + transfer_s(message_bytes / ranks))


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_hockney_link_is_found(ranks):
    link = measure(ranks, ring_s(ranks, 20e-6, lambda size: size / 25e6), 5e9)
    assert link.reduce_bytes_per_s == 5e9
    # 1 KiB counts as empty: a fortieth of a millisecond here, at most.
    assert link.latency_s == pytest.approx(20e-6 + 1024 / ranks / 25e6)
    assert link.bytes_per_s == pytest.approx(25e6, rel=0.05)
    for size in (2000, 50_000, 10_000_000):
        assert link.transfer_s(size) == pytest.approx(size / 25e6, rel=0.1, abs=1024 / ranks / 25e6)


def test_bandwidth_by_size_is_found():
    """Long messages at twice the rate, as behind a protocol switch."""

    def transfer_s(size):
        return size / 1e8 if size <= 16384 else 16384 / 1e8 + (size - 16384) / 2e8

    link = measure(4, ring_s(4, 5e-6, transfer_s), 5e9)
    for size in (8192, 16384, 65536, 262144):
        assert link.transfer_s(size) == pytest.approx(transfer_s(size), rel=0.05)


@pytest.mark.parametrize("burst_bytes", [4096, 16384])
def test_what_a_rested_port_lets_through_at_once_does_not_count(burst_bytes):
    def transfer_s(size):
        return max(size - burst_bytes, size / 10) / 25e6

    link = measure(8, ring_s(8, 20e-6, transfer_s), 5e9)
    assert link.bytes_per_s == pytest.approx(25e6, rel=0.05)
    assert link.transfer_s(10_000_000) == pytest.approx(transfer_s(10_000_000), rel=0.05)


def test_noise_makes_no_message_faster_than_a_shorter_one():
    noise = {131072: 5.0, 262144: 0.4}
    quiet = ring_s(4, 20e-6, lambda size: size / 1e9)
    link = measure(4, lambda size: quiet(size) * noise.get(size, 1), 5e9)
    seconds = [seconds for _, seconds in link.transfers_s]
    assert seconds == sorted(seconds)
    assert pat.Link(1e-6, 1e9, transfers_s=link.transfers_s) is not None  # it is a valid table


def test_a_link_of_latency_alone():
    """However fast the transfers, the table stays positive."""
    link = measure(3, lambda message_bytes: 1e-3, 5e9)
    assert link.latency_s == pytest.approx(1e-3 / 4)
    assert link.bytes_per_s > 0


@pytest.mark.parametrize("share", [0.1, 0.25, 1.0])
def test_the_share_of_the_latency_that_occupies_a_port_is_found(share):
    """Measured on the simulator, by the ring that the communicator would run."""
    link = pat.Link(20e-6, 25e6, 5e9, port_share=share)

    def simulated_s(message_bytes, segments):
        schedule = pat.schedule("ring", 4, segments)
        return pat.simulate(schedule, link, message_bytes).after_last_arrival_s

    assert measure_port_share(4, link, simulated_s) == pytest.approx(share, rel=0.1)


def test_a_port_share_stays_within_0_and_1():
    link = pat.Link(20e-6, 25e6, 5e9)
    assert measure_port_share(4, link, lambda message_bytes, segments: 1e-9) == 0
    assert measure_port_share(4, link, lambda message_bytes, segments: 1.0) == 1
