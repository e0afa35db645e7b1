"""What engines tell each other, and what they make of what nobody should have told."""

import struct
import threading
import time

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from tests.processes import LINK
from tests.threads import on_threads

VERSION = 6
HELLO, ABORT, BYE, PLANS_END, PLACES, BYE_HEARD = 0, 3, 4, 5, 6, 7  # kinds of messages
ENDED, LATE, _, DIFFERS = range(4)  # kinds of failures


def hello(version=VERSION):
    return struct.pack("<BI", HELLO, version)


def place(seq, at, rank):
    return struct.pack("<BQIii", PLACES, seq, 1, at, rank)


def plans_end(reason):
    reason = reason.encode()
    return struct.pack("<BI", PLANS_END, len(reason)) + reason + struct.pack("<I", 0)


def abort(kind, rank, text, completed, heard=0):
    """What a rank noticed; its verdict, if it has heard that many ranks."""
    text = text.encode()
    head = struct.pack("<BBiI", ABORT, kind, rank, len(text))
    return head + text + struct.pack("<QI", completed, heard)


@pytest.fixture(name="hub")
def hub_fixture():
    """Between three ranks."""
    return _core.LoopbackHub(3)


@pytest.fixture(name="engine_and_peers")
def engine_and_peers_fixture(hub):
    """An engine of rank 1 of 3, and transports by which a test speaks for ranks 0 and 2."""
    engine = _core.Engine(_core.Loopback(hub, 1), 20e-6, True, 1 << 20)
    yield engine, {rank: _core.Loopback(hub, rank) for rank in (0, 2)}
    engine.close(0.01)


def started(engine, peers):
    for peer in peers.values():
        peer.control(1, hello())
    engine.start(5)
    return engine


def call_of(algorithm, count=300, arrivals_s=()):
    return _core.Call(
        count, _core.Dtype.float32, _core.Op.sum, -1, algorithm, 3, [*arrivals_s], 0.0
    )


@pytest.mark.parametrize("teller", [0, 2])
def test_places_of_a_collective_that_has_none_are_ignored(engine_and_peers, teller):
    engine, peers = engine_and_peers
    started(engine, peers)
    tensor = torch.ones(300)
    ticket = engine.begin(tensor.data_ptr(), call_of("ring"), 20.0)
    for at in range(3):
        peers[teller].control(1, place(0, at, at))
    assert not ticket.done
    time.sleep(0.05)
    engine.check()


def test_only_rank_0_tells_places(engine_and_peers):
    engine, peers = engine_and_peers
    started(engine, peers)
    tensor = torch.ones(300)
    ticket = engine.begin(tensor.data_ptr(), call_of("slt_dynamic"), 20.0)
    peers[2].control(1, place(0, 2, 1))
    time.sleep(0.05)
    assert ticket.place == -1
    peers[0].control(1, place(0, 2, 1))
    deadline_s = time.monotonic() + 5
    while ticket.place != 2 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert ticket.place == 2


def test_only_rank_0_ends_the_plans(engine_and_peers):
    engine, peers = engine_and_peers
    started(engine, peers)
    for rank in (2, 0):
        peers[rank].control(1, plans_end(f"rank {rank} says so"))
    deadline_s = time.monotonic() + 5
    while engine.plans_ended is None and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert engine.plans_ended == "rank 0 says so"


def test_another_version_is_refused(engine_and_peers):
    engine, peers = engine_and_peers
    peers[0].control(1, hello())
    peers[2].control(1, hello(VERSION + 1))
    with pytest.raises(pat.MismatchError, match="rank 1 speaks version 6.*rank 2 speaks version 7"):
        engine.start(5)


def test_a_rank_that_closes_stays_until_all_others_have_heard_it(engine_and_peers):
    engine, peers = engine_and_peers
    started(engine, peers)
    closing = threading.Thread(target=engine.close, args=(20,))
    began_s = time.monotonic()
    closing.start()
    peers[0].control(1, struct.pack("<BQ", BYE, 0))  # has closed itself
    closing.join(0.1)
    assert closing.is_alive()
    peers[2].control(1, struct.pack("<B", BYE_HEARD))
    closing.join(10)
    assert time.monotonic() < began_s + 5


@pytest.mark.parametrize("algorithm", ["ring", "prr", "slt", "direct_exchange"])
def test_a_rank_that_ends_after_its_goodbye_before_all_is_here_is_named(
    algorithm, hub, engine_and_peers
):
    engine, peers = engine_and_peers
    started(engine, peers)
    tensor = torch.ones(300)
    engine.begin(tensor.data_ptr(), call_of(algorithm), 20.0)
    peers[0].control(1, struct.pack("<BQ", BYE, 1))
    time.sleep(0.05)
    hub.lose(0)
    assert str(error_of(engine)).startswith("rank 0 ended before rank 1 had all that it sent")


@pytest.mark.parametrize("count", [512, 513, 1100])
def test_more_collectives_than_may_be_in_flight_wait_for_a_late_rank(count):
    communicators = pat.Communicator.loopback(2, timeout_s=20, link=LINK, monitor=False)

    def sums(communicator):
        time.sleep(0.2 * communicator.rank)
        tensors = [torch.full((4,), float(i)) for i in range(count)]
        works = [
            communicator.all_reduce(tensor, async_op=True, algorithm="ring", segments=1)
            for tensor in tensors
        ]
        for work in works:
            work.wait()
        return [int(tensor[3]) for tensor in tensors]

    assert on_threads(communicators, sums) == [[2 * i for i in range(count)]] * 2
    on_threads(communicators, pat.Communicator.close)


def error_of(engine, within_s=5):
    """The error that the engine ends with."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        try:
            engine.check()
        except pat.TransportError as error:
            return error
        time.sleep(0.005)
    raise AssertionError("it goes on")


@pytest.mark.parametrize("first", [0, 2])
def test_of_what_ranks_noticed_all_take_the_cause(engine_and_peers, first):
    engine, peers = engine_and_peers
    started(engine, peers)
    tensor = torch.ones(300)
    ticket = engine.begin(tensor.data_ptr(), call_of("ring"), 20.0)
    told = {0: abort(DIFFERS, 2, "calls differ", 3), 2: abort(LATE, 0, "rank 0 was late", 5)}
    peers[first].control(1, told.pop(first))
    time.sleep(0.1)
    assert not ticket.done, "the third rank has not told"
    for rank, message in told.items():
        peers[rank].control(1, message)
    time.sleep(0.1)
    assert not ticket.done, "another may have left with another verdict"
    for peer in peers.values():
        peer.control(1, abort(DIFFERS, 2, "calls differ", 0, heard=3))
    error = error_of(engine, 0.3)
    assert (type(error), str(error), error.rank) == (pat.MismatchError, "calls differ", 2)
    assert error.completed == 0, "here the first one had no result yet"
    with pytest.raises(pat.MismatchError, match="calls differ"):
        engine.wait(ticket)


def test_who_was_held_up_takes_what_the_others_took_without_it(engine_and_peers):
    engine, peers = engine_and_peers
    started(engine, peers)
    for rank, peer in peers.items():
        peer.control(1, abort(DIFFERS, rank, f"calls differ, says rank {rank}", 4))
        peer.control(1, abort(LATE, 1, "rank 1 did not answer", 3, heard=2))
    error = error_of(engine, 0.3)
    assert type(error) is pat.TransportTimeout
    assert (str(error), error.rank) == ("rank 1 did not answer", 1)
    assert error.completed == 0, "it has none of the results that the others have"


@pytest.mark.parametrize("arrivals_s", [(0.0, 0.2, 0.1), (0.1, 0.2, 0.0)])
def test_of_silent_ranks_the_one_waited_for_is_named(engine_and_peers, arrivals_s):
    engine, peers = engine_and_peers
    started(engine, peers)
    before = arrivals_s.index(0.1)  # in the chain that ends here
    tensor = torch.ones(300)
    ticket = engine.begin(tensor.data_ptr(), call_of("slt", arrivals_s=arrivals_s), 1.0)
    with pytest.raises(pat.TransportTimeout, match="ranks 0, 2 did not answer") as raised:
        engine.wait(ticket)
    assert f"it waited for rank {before}" in str(raised.value)
    assert raised.value.rank == before


def test_a_rank_that_tells_nothing_is_not_waited_for_long(engine_and_peers):
    engine, peers = engine_and_peers
    started(engine, peers)
    peers[2].control(1, abort(ENDED, 2, "rank 2 aborted", 7))
    began_s = time.monotonic()
    assert error_of(engine).rank == 2
    assert 0.3 < time.monotonic() - began_s < 2
