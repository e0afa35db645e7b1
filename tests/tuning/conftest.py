"""Communicators of this process, closed after each test."""

import pytest

import patallreduce as pat


@pytest.fixture
def communicators():
    """Make those of so many ranks, in this process; closed at the end."""
    made = []

    def make(ranks):
        made.extend(comms := pat.Communicator.loopback(ranks))
        return comms

    yield make
    for comm in made:
        comm.close()
