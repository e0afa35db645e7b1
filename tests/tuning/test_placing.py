"""Ranks that share processors are placed by chance, evenly, and get back what they had."""

import os
import threading
from collections import Counter

import pytest

from patallreduce.tuning.placing import placed

OWN = sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(len(OWN) < 2, reason="one processor is one place")
def test_ranks_are_spread_evenly_and_chance_pairs_them_in_every_way():
    ranks = 2 * len(OWN)
    mates_of_rank_0 = set()
    for number in range(200):
        places = []
        for rank in range(ranks):
            with placed(rank, ranks, number):
                (place,) = os.sched_getaffinity(0)
            places.append(place)
            assert sorted(os.sched_getaffinity(0)) == OWN
        assert set(Counter(places).values()) == {2}
        mates_of_rank_0 |= {rank for rank in range(1, ranks) if places[rank] == places[0]}
    assert mates_of_rank_0 == set(range(1, ranks))


def test_every_thread_has_its_own_processors_again_and_those_that_started_meanwhile():
    ends = threading.Event()
    found = {}

    def pinned(processors):
        if processors is not None:
            os.sched_setaffinity(0, processors)
        ready.release()
        ends.wait()
        found[processors and tuple(processors)] = sorted(os.sched_getaffinity(0))

    ready = threading.Semaphore(0)
    first = threading.Thread(target=pinned, args=[OWN[:1]])
    first.start()
    ready.acquire()
    second = threading.Thread(target=pinned, args=[None])
    with pytest.raises(KeyError), placed(1, 2, 7):
        second.start()
        ready.acquire()
        raise KeyError
    ends.set()
    first.join()
    second.join()
    assert found == {tuple(OWN[:1]): OWN[:1], None: OWN}
