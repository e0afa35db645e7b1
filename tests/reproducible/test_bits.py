"""The bits of the reproducible all-reduce against the tree, evaluated one node after the other."""

import random
import time

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.connections import Connections
from patallreduce.communicator.session import Session
from tests.processes import LINK
from tests.reproducible.cases import FLOATS, INTEGERS, contributions, differing, expected
from tests.threads import on_threads

RANKS = [*range(1, 10), 16]


def delayed_loopback(ranks):
    """Ranks as threads whose announcements and pulses come late, each by a time of its own."""
    hub = _core.LoopbackHub(ranks)
    made = []
    for rank in range(ranks):
        native = _core.Delayed(_core.Loopback(hub, rank), 2e-3, rank)
        made.append(Session(Connections(native, None, ranks), 30.0, LINK))
    on_threads(made, Session.start)
    return [pat.Communicator._of(session) for session in made]


@pytest.fixture(scope="module", name="communicators_of")
def communicators_of_fixture():
    made = {}

    def communicators_of(ranks, delayed=False):
        if (ranks, delayed) not in made:
            plain = pat.Communicator.loopback
            made[ranks, delayed] = delayed_loopback(ranks) if delayed else plain(ranks, link=LINK)
        return made[ranks, delayed]

    yield communicators_of
    for communicators in made.values():
        on_threads(communicators, pat.Communicator.close)


def differing_bits(communicators, parts, op="sum", segments=None, delays_s=None, hints=None):
    """Differing elements over all ranks; rank r calls `delays_s[r]` late."""
    tensors = [part.clone() for part in parts]

    def call(communicator):
        rank = communicator.rank
        if delays_s:
            time.sleep(delays_s[rank])
        communicator.all_reduce(
            tensors[rank], op, "reproducible", segments=segments, arrivals_s=hints
        )

    on_threads(communicators, call)
    wanted = expected(parts, op)
    return sum(differing(tensor, wanted) for tensor in tensors)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
def test_every_size_and_op(communicators_of, ranks, dtype):
    for count in sorted({0, 1, ranks - 1, 1000}):
        for op in ("sum", "avg"):
            parts = contributions(ranks, count, dtype, seed=count)
            assert differing_bits(communicators_of(ranks), parts, op) == 0


@pytest.mark.parametrize(("ranks", "dtype"), [(3, FLOATS[0]), (4, FLOATS[2]), (7, FLOATS[3])])
def test_a_million_elements(communicators_of, ranks, dtype):
    assert differing_bits(communicators_of(ranks), contributions(ranks, 1_000_003, dtype, 1)) == 0


def random_case(communicators_of, seed):
    choose = random.Random(seed)
    ranks = choose.choice(RANKS)
    count = int(10 ** choose.uniform(0, 4.5))
    parts = contributions(ranks, count, choose.choice(FLOATS), seed)
    return differing_bits(
        communicators_of(ranks, delayed=choose.random() < 0.5),
        parts,
        choose.choice(["sum", "avg"]),
        choose.choice([None, 1, choose.randint(1, min(count, 100))]),
        [choose.choice([0.0, choose.uniform(0, 3e-3)]) for _ in range(ranks)],
        choose.choice([None, [choose.random() for _ in range(ranks)]]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_cases_with_random_delays_and_segments(communicators_of, seed):
    assert random_case(communicators_of, seed) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 500))
def test_more_random_cases(communicators_of, seed):
    assert random_case(communicators_of, seed) == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_million_elements_on_any_number_of_ranks(communicators_of, ranks, dtype):
    assert differing_bits(communicators_of(ranks), contributions(ranks, 1_000_003, dtype, 2)) == 0


def test_the_cases_can_fail(communicators_of):
    """A ring gives other bits for them; without that, no test here would say anything."""
    parts = contributions(5, 1000, torch.float32, seed=0)
    tensors = [part.clone() for part in parts]
    on_threads(communicators_of(5), lambda c: c.all_reduce(tensors[c.rank], algorithm="ring"))
    assert differing(tensors[0], expected(parts)) > 100


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_subnormals_survive_a_caller_that_flushes_them(communicators_of, dtype):
    """The caller drives the sums from its own thread; the others may not see its mode in them."""
    smallest = torch.ones(1000, dtype=INTEGERS[dtype.itemsize]).view(dtype)
    tensors = [smallest.clone() for _ in range(3)]
    wanted = expected([smallest] * 3)
    assert wanted.count_nonzero() == 1000

    def call(communicator):
        if communicator.rank != 1:
            return communicator.all_reduce(tensors[communicator.rank], algorithm="reproducible")
        assert torch.set_flush_denormal(True)
        try:
            with pytest.warns(RuntimeWarning, match=r"rank 1: .*set_flush_denormal") as seen:
                communicator.all_reduce(tensors[1], algorithm="reproducible")
            assert len(seen) == 1
        finally:
            torch.set_flush_denormal(False)

    communicators = communicators_of(3)
    communicators[1].session.settler._warned_of_flushing = False  # it warns once in its life
    on_threads(communicators, call)
    assert [differing(tensor, wanted) for tensor in tensors] == [0, 0, 0]


def bits_over_ucx(cases):
    wrong = []
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        rank, ranks = communicator.rank, communicator.ranks
        for seed, (count, dtype) in enumerate(cases):
            choose = random.Random(seed)
            segments = choose.choice([None, choose.randint(1, min(max(count, 1), 100))])
            parts = contributions(ranks, count, dtype, seed)
            tensor = parts[rank].clone()
            time.sleep(random.Random(seed * ranks + rank).choice([0, 0, 2e-3]))
            communicator.all_reduce(tensor, "sum", "reproducible", segments=segments)
            wrong.append(differing(tensor, expected(parts)))
    return wrong


@pytest.mark.parametrize("ranks", [2, 3, 5, 6])
def test_processes_over_ucx(processes, ranks):
    cases = [(count, dtype) for count in (0, 1, ranks - 1, 10_007) for dtype in FLOATS]
    cases.append((1_000_003, FLOATS[ranks % 4]))
    assert processes.run(ranks, bits_over_ucx, cases) == [[0] * len(cases)] * ranks


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_every_dtype_and_number_of_ranks_over_ucx(processes, ranks):
    cases = [(count, dtype) for count in (ranks - 1, 1_000_003) for dtype in FLOATS]
    wrong = processes.run(ranks, bits_over_ucx, cases, timeout_s=300)
    assert wrong == [[0] * len(cases)] * ranks
