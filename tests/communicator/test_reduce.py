"""Reductions to a root: right sums there, other ranks' tensors as they were."""

import random
import time

import pytest
import torch

import patallreduce as pat
from tests.communicator.reference import (
    DTYPES,
    OPS,
    assert_is_a_sum,
    bits,
    contributions,
    expected,
)
from tests.processes import LINK
from tests.threads import errors_on_threads, on_threads

RANKS = [1, 2, 3, 4, 8]
ALGORITHMS = sorted(pat.algorithms("reduce"))
COUNTS = [0, 1, 7, 1000]


@pytest.fixture(scope="module", name="communicators_of")
def communicators_of_fixture():
    made = {ranks: pat.Communicator.loopback(ranks, timeout_s=20, link=LINK) for ranks in RANKS}
    yield made.__getitem__
    for communicators in made.values():
        on_threads(communicators, pat.Communicator.close)


def random_case(choose, ranks, count):
    late = choose.randrange(ranks)
    return {
        "root": choose.randrange(ranks),
        "segments": choose.randint(1, max(min(count, 64), 1)),
        "arrivals_s": choose.choice(
            [
                None,
                [0.0] * ranks,
                [float(rank == late) for rank in range(ranks)],
                [choose.random() * 1e-4 for _ in range(ranks)],
            ]
        ),
    }


def schedule_of(algorithm, ranks, message_bytes, case):
    """A round takes the time of one segment: CLV16, section 5.4. A redirect, that of a message."""
    time_s = 0.0
    arrivals_s = case["arrivals_s"]
    if algorithm == "clairvoyant" and arrivals_s and len(set(arrivals_s)) > 1:
        segment_bytes = message_bytes // case["segments"]
        time_s = LINK.latency_s + segment_bytes / LINK.bytes_per_s
        time_s += segment_bytes / LINK.reduce_bytes_per_s
    if algorithm == "local_redirect_reduce":
        time_s = LINK.latency_s + message_bytes / LINK.bytes_per_s / ranks
    return pat.schedule(algorithm, ranks, collective="reduce", segment_time_s=time_s, **case)


def check(rank, tensor, parts, op, algorithm, case):
    if rank != case["root"]:
        assert torch.equal(bits(tensor), bits(parts[rank])), f"rank {rank} was changed: {case}"
        return
    message_bytes = tensor.numel() * tensor.element_size()
    schedule = schedule_of(algorithm, len(parts), message_bytes, case)
    assert_is_a_sum(tensor, expected(parts, op, schedule), f"{op}, {algorithm}, {case}")


def reduce_and_check(communicator, dtype, op, algorithm, count, seed):
    ranks = communicator.ranks
    case = random_case(random.Random(seed), ranks, count)
    parts = contributions(ranks, count, dtype)
    tensor = parts[communicator.rank].clone()
    communicator.reduce(tensor, op=op, algorithm=algorithm, **case)
    check(communicator.rank, tensor, parts, op, algorithm, case)


# Every algorithm and size with some ops; with all of them in `make test-all`.
@pytest.mark.parametrize("ops", [2, pytest.param(len(OPS), marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
def test_every_op_and_size(communicators_of, ranks, dtype, ops):
    def one_after_the_other(communicator):
        choose = random.Random(f"{ranks} {dtype}")
        for count in COUNTS:
            for algorithm in ALGORITHMS:
                for op in choose.sample(list(OPS), ops):
                    seed = f"{dtype} {op} {count}"
                    reduce_and_check(communicator, dtype, op, algorithm, count, seed)

    on_threads(communicators_of(ranks), one_after_the_other)


def over_ucx(seeds):
    choose = random.Random(seeds)
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        for seed in range(seeds):
            reduce_and_check(
                communicator,
                choose.choice(DTYPES),
                choose.choice(list(OPS)),
                choose.choice(ALGORITHMS),
                choose.choice([*COUNTS, 100_003]),
                seed,
            )


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
def test_over_ucx(processes, ranks):
    processes.run(ranks, over_ucx, 40)


def test_by_default(communicators_of):
    """Root 0, sum, segments by the link; a Work holds the tensor it was given."""
    tensors = [torch.full((100_003,), float(rank)) for rank in range(4)]
    works = [c.reduce(tensors[c.rank], async_op=True) for c in communicators_of(4)]
    for rank, work in enumerate(works):
        work.wait()
        assert work.get_future().wait() is tensors[rank]
    assert tensors[0].eq(6).all()
    assert all(tensors[rank].eq(rank).all() for rank in (1, 2, 3))
    call = communicators_of(4)[0].stats()[-1]["call"]
    assert "clairvoyant with " in call
    assert " to root 0" in call


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_other_ranks_may_spoil_their_tensors_at_once(communicators_of, algorithm):
    late = [0.0, 0.0, 1.0, 0.0]

    def reduce_and_spoil(communicator):
        for i in range(50):
            tensor = torch.full((10_007,), float(communicator.rank + i))
            communicator.reduce(tensor, i % 4, "sum", algorithm, segments=16, arrivals_s=late)
            assert tensor.eq(
                4 * i + 6 if communicator.rank == i % 4 else communicator.rank + i
            ).all()
            tensor.fill_(float("nan"))

    on_threads(communicators_of(4), reduce_and_spoil)


def test_an_early_rank_goes_on_before_the_root_comes():
    """Its contribution is with another rank, or on its way; nothing of its own is awaited."""
    communicators = pat.Communicator.loopback(3, timeout_s=20, link=LINK)
    hints = {"segments": 8, "arrivals_s": [1.0, 0.0, 0.0]}
    tensors = [torch.full((1000,), float(rank)) for rank in range(3)]
    on_threads(communicators[1:], lambda c: c.reduce(tensors[c.rank], **hints))
    for tensor in tensors[1:]:
        tensor.fill_(float("nan"))
    communicators[0].reduce(tensors[0], **hints)
    assert tensors[0].eq(3).all()
    on_threads(communicators, pat.Communicator.close)


def test_different_roots_are_a_mismatch():
    communicators = pat.Communicator.loopback(3, timeout_s=20, link=LINK)
    errors = errors_on_threads(
        communicators, lambda c: c.reduce(torch.ones(9), root=1 if c.rank == 2 else 0)
    )
    assert errors[0] is not None
    for communicator, error in zip(communicators, errors, strict=True):
        if error is None:  # its contribution was on its way before the ranks could compare
            with pytest.raises(pat.MismatchError) as raised:
                for _ in range(1000):
                    communicator.session.check_usable()
                    time.sleep(0.01)
            seen = raised.value
        else:
            seen = error
        assert isinstance(seen, pat.MismatchError)
        assert "to root 0" in str(seen)
        assert "to root 1" in str(seen)
    for communicator in communicators:
        communicator.close()


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"root": 2}, pat.ScheduleError, "root: expected 0 to 1, got 2 on rank 1"),
        ({"root": -1}, pat.ScheduleError, "root: expected 0 to 1, got -1 on rank 1"),
        ({"root": 0.5}, TypeError, None),
        ({"algorithm": "ring"}, pat.ScheduleError, "clairvoyant, got 'ring' on rank 1"),
        ({"op": "xor"}, ValueError, "sum, avg, min, max, prod, got 'xor'"),
        ({"segments": 0}, pat.ScheduleError, "1 to 5 .*got 0 on rank 1"),
        ({"arrivals_s": [0.0]}, pat.ScheduleError, "expected 2 times.*got 1"),
        ({"timeout_s": 0}, ValueError, "timeout_s.*got 0"),
    ],
    ids=str,
)
def test_bad_arguments(communicators_of, arguments, error, match):
    pair = communicators_of(2)
    with pytest.raises(error, match=match):
        pair[1].reduce(torch.ones(5), **arguments)
    with pytest.raises(pat.ScheduleError, match="algorithm: .*got 'flat_reduce'"):
        pair[1].all_reduce(torch.ones(5), algorithm="flat_reduce")
    with pytest.raises(TypeError, match=r"got torch\.bool on rank 1"):
        pair[1].reduce(torch.ones(5, dtype=torch.bool))
    tensors = [torch.ones(5), torch.ones(5)]
    on_threads(pair, lambda c: c.reduce(tensors[c.rank]))
    assert tensors[0].eq(2).all()
    assert tensors[1].eq(1).all()
