"""The network as it is measured on a running transport."""

import pytest
import torch

import patallreduce as pat
from tests.threads import on_threads


def on_all_ranks(ranks, work, **options):
    communicators = pat.Communicator.loopback(ranks, timeout_s=30, monitor=False, **options)
    results = on_threads(communicators, work)
    for communicator in communicators:
        communicator.close()
    return results


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_ranks_get_the_same_link(ranks, capfd):
    """A valid one, and nothing is printed; the communicator's own stays."""

    def work(communicator):
        before = communicator.link
        link = pat.calibrate(communicator).link
        assert communicator.link is before
        total = torch.ones(3)
        communicator.all_reduce(total)  # the ranks still agree on what comes next
        assert total.tolist() == [ranks] * 3
        return link

    links = on_all_ranks(ranks, work)
    if ranks > 1:
        assert len(set(links)) == 1
        sizes = [size for size, _ in links[0].transfers_s]
        assert sizes == sorted(sizes)
        assert sizes
    assert 0 <= links[0].port_share <= 1
    assert capfd.readouterr() == ("", "")


def test_sums_are_measured_in_the_dtype_that_is_asked_for():
    """float16 is converted both ways; whatever the machine, both are positive."""
    [(half, full)] = on_all_ranks(
        1,
        lambda comm: [pat.calibrate(comm, dtype).link for dtype in (torch.float16, torch.float32)],
    )
    assert half.reduce_bytes_per_s > 0
    assert full.reduce_bytes_per_s > 0


def test_a_dtype_that_cannot_be_summed_is_refused():
    def work(communicator):
        with pytest.raises(TypeError, match="complex64"):
            pat.calibrate(communicator, torch.complex64)

    on_all_ranks(1, work)


def test_nodes_are_told_apart_and_both_links_measured():
    """By threads they are as good as each other: the shape is what is told, to all the same."""
    nodes = [0, 0, 1, 1, 1]
    networks = on_all_ranks(5, pat.calibrate, nodes=nodes)
    assert len(set(networks)) == 1
    network = networks[0]
    assert network.nodes == tuple(nodes)
    assert isinstance(network.within_node, pat.Link)
    assert len(network.links) == 5
    assert len(network.uplink_bytes_per_s) == 2
    schedule = pat.schedule("ring", 5, 5, nodes=nodes)
    assert max(pat.simulate(schedule, network, 1 << 20).finish_s) > 0
    said = str(network)
    assert "5 ranks on 2 nodes, which share ports" in said
    assert "within a node" in said


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch):
    """Saved, loaded and given, the network's link is the communicator's."""
    network = on_all_ranks(3, pat.calibrate)[0]
    network.save(tmp_path / "network.json")
    loaded = pat.Network.load(tmp_path / "network.json")
    assert loaded == network
    monkeypatch.setattr("patallreduce.communicator.link_meter.measure", None)
    assert on_all_ranks(3, lambda comm: comm.link, link=loaded) == [network.link] * 3


def test_a_node_with_one_of_its_ranks_alone():
    """Rank 0 shares its node with nobody: nothing to measure there."""
    network = on_all_ranks(3, pat.calibrate, nodes=[0, 1, 1])[0]
    assert network.within_node is None
    assert network.nodes == (0, 1, 1)
