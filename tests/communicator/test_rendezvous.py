"""How ranks find each other in the store, where they look at what another one is changing."""

import torch.distributed as dist

from patallreduce.communicator import rendezvous
from patallreduce.communicator.rendezvous import Rendezvous

MISTAKE = rendezvous._MISTAKE.format(0)


class Store(dist.HashStore):
    """In which a rank makes good its mistake just when another one has seen it."""

    def __init__(self, rendezvous_of_rank_0):
        super().__init__()
        self.make_good = rendezvous_of_rank_0

    def check(self, keys):
        there = super().check(keys)
        if MISTAKE in keys and there:
            self.make_good()
        return there


def without_group(store, rank):
    """As much of a rendezvous as looks for mistakes."""
    one = Rendezvous.__new__(Rendezvous)
    one.rank, one._group_store = rank, store
    return one


def test_a_mistake_that_is_made_good_meanwhile_is_not_waited_for():
    made_good = []

    def make_good():
        if not made_good:
            made_good.append(True)
            without_group(store, 0)._forget_mistake()

    store = Store(make_good)
    store.set(MISTAKE, "TypeError: a mistake")

    assert without_group(store, 2)._mistake(0) is None
    assert made_good
    assert without_group(store, 1)._mistake(0) is None
