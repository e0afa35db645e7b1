"""Right sums for every dtype, op and algorithm, with the ranks as threads."""

import random

import pytest
import torch

import patallreduce as pat
from patallreduce.communicator.settler import Arguments
from tests.communicator.reference import (
    ALGORITHMS,
    DTYPES,
    OPS,
    assert_is_a_sum,
    bits,
    contributions,
    expected,
    times_s,
)
from tests.threads import on_threads

RANKS = [1, 2, 3, 4, 5, 8]


@pytest.fixture(scope="module", name="communicators_of")
def communicators_of_fixture():
    made = {ranks: pat.Communicator.loopback(ranks) for ranks in RANKS}
    yield made.__getitem__
    for communicators in made.values():
        on_threads(communicators, pat.Communicator.close)


def random_plan(choose: random.Random, ranks: int, count: int, algorithm: str) -> dict:
    """Segments from one to as many as there are elements, and hints of every kind."""
    late = choose.randrange(ranks)
    hints = [
        None,
        [0.0] * ranks,
        [float(rank == late) for rank in range(ranks)],
        [float(choose.randrange(3)) for _ in range(ranks)],
        [choose.random() for _ in range(ranks)],
    ]
    most = max(min(count, 64), 1)
    return {
        "algorithm": algorithm,
        "segments": choose.choice([1, min(ranks, most), most, choose.randint(1, most)]),
        "arrivals_s": choose.choice(hints),
        "segment_time_s": choose.choice([0.0, 0.1, 0.5]) if algorithm == "prr" else 0.0,
    }


def check(communicators, count, dtype, op, plan, *, async_op, seed=0):
    ranks = len(communicators)
    parts = contributions(ranks, count, dtype, seed)
    tensors = [part.clone() for part in parts]
    if async_op:
        works = [c.all_reduce(tensors[c.rank], op, async_op=True, **plan) for c in communicators]
        for work in works:
            work.wait()
    else:
        on_threads(communicators, lambda c: c.all_reduce(tensors[c.rank], op, **plan))
    arrivals_s = plan["arrivals_s"]
    if plan["algorithm"] == "slt_dynamic":
        last = [c.session.records[-1] for c in communicators]
        arrivals_s = [float(ticket.place) for ticket, _ in last]
        assert sorted(arrivals_s) == list(range(ranks))
    algorithm, segments = plan["algorithm"], plan["segments"]
    link = communicators[0].link if algorithm == "clairvoyant" else None
    times = times_s(algorithm, segments, plan["segment_time_s"], parts[0], link)
    schedule = pat.schedule(algorithm, ranks, segments, arrivals_s, **times)
    case = f"{count} of {dtype}, {op}, {plan}"
    assert_is_a_sum(tensors[0], expected(parts, op, schedule), case)
    for tensor in tensors[1:]:
        assert torch.equal(bits(tensor), bits(tensors[0])), case


# Every algorithm and size with some ops; with all of them in `make test-all`.
@pytest.mark.parametrize("ops", [2, pytest.param(len(OPS), marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
def test_every_op_size_and_algorithm(communicators_of, ranks, dtype, ops):
    choose = random.Random(f"{ranks} {dtype}")
    for count in (0, 1, 7, 1000):
        for algorithm in ALGORITHMS:
            for op in choose.sample(list(OPS), ops):
                plan = random_plan(choose, ranks, count, algorithm)
                async_op = choose.random() < 0.7
                check(communicators_of(ranks), count, dtype, op, plan, async_op=async_op)
    for op in OPS:
        plan = random_plan(choose, ranks, 100_003, choose.choice(ALGORITHMS))
        check(communicators_of(ranks), 100_003, dtype, op, plan, async_op=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_a_million_elements(communicators_of, ranks, algorithm):
    plan = random_plan(random.Random(ranks), ranks, 1_000_003, algorithm)
    for dtype, async_op in ((torch.float32, False), (torch.bfloat16, True)):
        check(communicators_of(ranks), 1_000_003, dtype, "avg", plan, async_op=async_op)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_number_of_segments(communicators_of, algorithm):
    choose = random.Random(algorithm)
    for ranks in (2, 3, 5):
        for segments in range(1, 41):
            plan = random_plan(choose, ranks, 40, algorithm) | {"segments": segments}
            check(communicators_of(ranks), 40, torch.float32, "sum", plan, async_op=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_cases(communicators_of, seed):
    choose = random.Random(seed)
    for _ in range(30):
        ranks = choose.choice(RANKS)
        count = int(10 ** choose.uniform(0, 6))
        plan = random_plan(choose, ranks, count, choose.choice(ALGORITHMS))
        plan["segments"] = choose.randint(1, min(count, 500))
        check(
            communicators_of(ranks),
            count,
            choose.choice(DTYPES),
            choose.choice(list(OPS)),
            plan,
            async_op=choose.random() < 0.5,
            seed=seed,
        )


def test_a_call_that_is_done_before_it_is_submitted_completes_once():
    """With one rank the engine's thread may finish a call while it is being handed over."""
    (communicator,) = pat.Communicator.loopback(1, timeout_s=10)
    call = communicator.session.settle(torch.ones(1), Arguments(algorithm="ring", segments=1))
    engine, data = communicator.session.engine, torch.ones(1)
    submitted = [engine.submit(data.data_ptr(), call, 10.0) for _ in range(100_000)]
    for ticket in submitted:
        engine.expect(ticket)
    finished = {engine.next_done(10.0).seq for _ in submitted}
    assert finished == {ticket.seq for ticket in submitted}
    assert engine.next_done(0.01) is None
    communicator.close()
