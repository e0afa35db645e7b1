"""Ranks of one process over each transport."""

import functools
import select
import time

import pytest

from patallreduce import _core
from patallreduce.communicator import ucx


class Rank:
    """A transport, what it reported, and buffers for it to read and write."""

    def __init__(self, transport):
        self.transport = transport
        self.finished = []
        self.control = []
        self.lost = []

    def progress(self):
        finished, control, lost = self.transport.progress()
        self.finished += finished
        self.control += control
        self.lost += lost
        return bool(finished or control or lost)


class World:
    """All ranks; one thread drives them in turn."""

    def __init__(self, transports):
        self.ranks = [Rank(transport) for transport in transports]

    def __getitem__(self, rank):
        return self.ranks[rank]

    def until(self, condition, timeout_s=20.0):
        """Drive everybody until `condition()`; fail if it takes `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline_s, [vars(rank) for rank in self.ranks]
            for rank in self.ranks:
                rank.progress()

    def drive(self, seconds):
        """Drive everybody for a while, for what should not happen."""
        until_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > until_s)

    def close(self):
        for rank in self.ranks:
            rank.transport.close(0.1)


def sleeps(rank, timeout_s):
    """Arm and sleep as the engine does; True if there was nothing and nothing woke it."""
    while not rank.transport.arm():
        if rank.progress():
            return False
    ready, _, _ = select.select(rank.transport.event_fds(), [], [], timeout_s)
    return not ready


def loopback(ranks):
    hub = _core.LoopbackHub(ranks)
    return [_core.Loopback(hub, rank) for rank in range(ranks)]


def delayed(ranks):
    return [_core.Delayed(beneath, 0.05, seed=3) for beneath in loopback(ranks)]


KEY = bytes(range(16))


def over_ucx(ranks, keys=None, *, secret=False, **choice):
    """`keys`: one per rank, where they differ."""
    made = [
        _core.Ucx(
            ucx.library_path(), rank, ranks, (keys or [KEY] * ranks)[rank], secret=secret, **choice
        )
        for rank in range(ranks)
    ]
    addresses = [transport.address() for transport in made]
    for transport in made:
        transport.connect(addresses)
    return made


TRANSPORTS = {
    "loopback": loopback,
    "delayed": delayed,
    "ucx": over_ucx,
    "ucx with a secret": functools.partial(over_ucx, secret=True),
    "ucx over several connections": functools.partial(
        over_ucx, secret=True, transports="tcp,self", connections=5
    ),
}


@pytest.fixture(params=TRANSPORTS)
def world(request):
    """Three connected ranks."""
    made = World(TRANSPORTS[request.param](3))
    yield made
    made.close()
