"""Collectives that name no algorithm: the usual one, unless the model knows a much faster one."""

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.selection import cheapest, prices_s
from tests.threads import on_threads

LINK = pat.Link(60e-6, 25e6, 5e9)
NODES = [0, 0, 0, 0, 1, 1, 1, 1]
COLLECTIVES = ("reduce", "broadcast", "all_gather", "reduce_scatter")


def usual(collective):
    return _core.usual_algorithm(collective).name


@pytest.mark.parametrize("nodes", [(), NODES])
@pytest.mark.parametrize("message_bytes", [1 << 10, 1 << 16, 1 << 22])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_another_is_taken_where_it_is_clearly_faster(collective, message_bytes, nodes):
    size = (8, message_bytes, message_bytes // 4)
    prices = prices_s(collective, *size, link=LINK, nodes=nodes)
    taken = cheapest(collective, *size, link=LINK, nodes=nodes)
    assert prices[taken] == min(prices.values()) or taken == usual(collective)
    assert prices[taken] <= min(prices.values()) / 0.9


def test_large_broadcasts_follow_each_other_along_a_chain():
    """A tree of 8 sends the whole message three times, one after the other."""
    size = (8, 1 << 22, 1 << 20)
    taken = cheapest("broadcast", *size, link=LINK)
    prices = prices_s("broadcast", *size, link=LINK)
    transfer_s = LINK.transfer_s(1 << 22)
    assert prices[usual("broadcast")] > 2.9 * transfer_s
    assert prices[taken] < 1.3 * transfer_s


@pytest.mark.parametrize("nodes", [(), NODES])
@pytest.mark.parametrize("message_bytes", [1 << 12, 1 << 16, 1 << 22])
def test_several_in_flight_hide_latencies(message_bytes, nodes):
    """None takes much longer for its share than alone, nor less than a port takes for its bytes.

    A chain of 4 KiB takes little but latencies.
    """
    size = (8, message_bytes, message_bytes // 4)
    alone_s = prices_s("all_reduce", *size, link=LINK, nodes=nodes)
    share_s = prices_s("all_reduce", *size, link=LINK, nodes=nodes, in_flight=8)
    assert alone_s.keys() == share_s.keys()
    for name, seconds in share_s.items():
        assert 0.9 * message_bytes / LINK.bytes_per_s < seconds < 1.1 * alone_s[name], name
    if message_bytes == 1 << 12:
        assert share_s["slt"] < 0.7 * alone_s["slt"]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(("ranks", "elements"), [(1, 100), (65, 6500), (8, 0)])
def test_where_nothing_can_be_told_it_is_the_usual_one(collective, ranks, elements):
    assert cheapest(collective, ranks, 4 * elements, elements, link=LINK) == usual(collective)


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_among_many_ranks_those_who_change_partners_have_to_win_more(collective):
    size = (16, 1 << 22, 1 << 20)
    assert cheapest(collective, *size, link=LINK) == usual(collective)


def test_calls_take_it():
    """Of a reduce whose arrivals are told, the one that goes by them."""
    comms = pat.Communicator.loopback(8, link=LINK)

    def call(comm, **arrivals):
        tensor = torch.full((1 << 16,), float(comm.rank + 1))
        comm.reduce(tensor, 0, **arrivals)
        reduced = comm.stats()[-1]["call"]
        comm.broadcast(tensor, 0)
        assert torch.equal(tensor, torch.full((1 << 16,), 36.0))
        return reduced, comm.stats()[-1]["call"]

    size = (8, 1 << 18, 1 << 16)
    names = [cheapest(name, *size, link=LINK) for name in ("reduce", "broadcast")]
    assert names != [usual("reduce"), usual("broadcast")]
    for calls in on_threads(comms, call):
        assert all(name in call for name, call in zip(names, calls, strict=True))
    for calls in on_threads(comms, lambda comm: call(comm, arrivals_s=[0.0] * 7 + [0.1])):
        assert usual("reduce") in calls[0]
    for comm in comms:
        comm.close()
