"""Schedules that are given in place of an algorithm's name: proved, run, compared between ranks."""

import random
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Schedule, Step
from patallreduce.communicator.calls import Request
from patallreduce.communicator.given import GivenSchedules
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

RANKS = [1, 2, 3, 4, 5, 8]


@pytest.fixture(scope="module", name="communicators_of")
def communicators_of_fixture():
    made = {ranks: pat.Communicator.loopback(ranks, timeout_s=20, link=LINK) for ranks in RANKS}
    yield made.__getitem__
    for communicators in made.values():
        on_threads(communicators, pat.Communicator.close)


@pytest.fixture(name="pair")
def pair_fixture():
    made = pat.Communicator.loopback(2, timeout_s=20, link=LINK)
    yield made
    for communicator in made:
        communicator.close()


def cuts(choose, segments):
    """Cut [0, segments) into consecutive ranges, at random."""
    inner = sorted(choose.sample(range(1, segments), choose.randint(0, segments - 1)))
    return list(zip([0, *inner], [*inner, segments], strict=True))


def permuted(choose, ranks, segments):
    """Relabel the ranks of an algorithm's schedule: a ring in another order, say."""
    name = choose.choice(sorted(pat.algorithms()))
    original = pat.schedule(name, ranks, segments)
    label = choose.sample(range(ranks), ranks)
    steps = [[]] * ranks
    for rank in range(ranks):
        steps[label[rank]] = [
            Step(s.verb, label[s.peer], s.first, s.last, s.round) for s in original.steps(rank)
        ]
    return Schedule.from_steps(steps, segments, algorithm=f"permuted {name}")


def trees(choose, ranks, segments):
    """Sum every range of segments up a random tree of its own, and pass the result down again."""
    up, down = [[] for _ in range(ranks)], [[] for _ in range(ranks)]
    for first, last in cuts(choose, segments):
        order = choose.sample(range(ranks), ranks)  # parents before their children
        parent = {order[i]: order[choose.randrange(i)] for i in range(1, ranks)}
        for child in reversed(order[1:]):
            for piece in cuts(choose, last - first):
                ends = first + piece[0], first + piece[1]
                up[parent[child]].append(Step("recv_reduce", child, *ends))
                up[child].append(Step("send", parent[child], *ends))
        for child in order[1:]:
            down[parent[child]].append(Step("send", child, first, last))
            down[child].append(Step("recv", parent[child], first, last))
    steps = [*map(list.__add__, up, down)]
    return Schedule.from_steps(steps, segments, algorithm="trees")


def random_case(choose, ranks):
    count = choose.choice([1, 7, 1000, 5003])
    segments = choose.randint(1, min(count, 12))
    make = choose.choice([permuted, trees])
    return count, choose.choice(DTYPES), choose.choice(list(OPS)), make(choose, ranks, segments)


def reduce_and_check(communicator, case):
    count, dtype, op, schedule = case
    parts = contributions(communicator.ranks, count, dtype)
    tensor = parts[communicator.rank].clone()
    communicator.all_reduce(tensor, op, schedule=schedule)
    assert_is_a_sum(tensor, expected(parts, op, schedule), f"{op} {dtype} {schedule!r}")
    return tensor


@settings(max_examples=150)
@given(ranks=st.sampled_from(RANKS), choose=st.randoms(use_true_random=False))
def test_any_schedule_that_is_proved_runs(communicators_of, ranks, choose):
    case = random_case(choose, ranks)
    pat.verify(case[3])
    results = on_threads(communicators_of(ranks), reduce_and_check, case)
    assert all(torch.equal(bits(result), bits(results[0])) for result in results)


def over_ucx(seeds):
    """Every rank makes the schedules itself; a few run in between under their names."""
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        for seed in range(seeds):
            case = random_case(random.Random(seed), communicator.ranks)
            reduce_and_check(communicator, case)
            communicator.all_reduce(torch.ones(100), algorithm="ring")
            reduce_and_check(communicator, case)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_over_ucx(processes, ranks):
    processes.run(ranks, over_ucx, 25)


def run_collective(communicator, collective, schedule):
    """Run `schedule` on integers; what this rank ends with, and what it should."""
    rank, ranks = communicator.rank, communicator.ranks
    parts = torch.arange(ranks * 5003).repeat(ranks, 1) * 7 + 100 * torch.arange(ranks)[:, None]
    tensor = parts[rank].clone()
    if collective == "barrier":
        communicator.barrier(schedule=schedule)
        return tensor, tensor
    getattr(communicator, collective)(tensor, schedule=schedule)
    own = slice(rank * 5003, (rank + 1) * 5003)
    if collective == "reduce_scatter":
        return tensor[own], parts.sum(0)[own]
    blocks = [parts[r, r * 5003 : (r + 1) * 5003] for r in range(ranks)]
    reduced = parts.sum(0) if rank == schedule.root else parts[rank]
    due = {"reduce": reduced, "broadcast": parts[schedule.root], "all_gather": torch.cat(blocks)}
    return tensor, due[collective]


@pytest.mark.parametrize(
    "collective", ["reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"]
)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_collective_takes_one(communicators_of, ranks, collective):
    segments = 1 if collective == "barrier" else 3 * ranks
    for name in pat.algorithms(collective):
        schedule = pat.schedule(name, ranks, segments, collective=collective, root=ranks - 1)
        for is_, due in on_threads(communicators_of(ranks), run_collective, collective, schedule):
            assert is_.equal(due), name


def test_it_is_proved_once_as_long_as_it_lives(pair):
    class Counting:
        proved = 0

        def given(self, schedule):
            self.proved += 1
            return pair[0].session.engine.given(schedule)

    engine = Counting()
    known = GivenSchedules(engine)
    request = Request(9, 4, pat._core.Dtype.float32, "sum", None, None, None, None, -1)
    schedule = pat.schedule("ring", 2)
    calls = {str(known.call(schedule, request, rank=0)) for _ in range(3)}
    assert len(calls) == 1
    assert engine.proved == 1
    known.call(pat.schedule("ring", 2), request, rank=0)
    assert engine.proved == 2
    assert len(known._keys) == 1, "what its caller gave up is forgotten"


def broken():
    """Rank 0 takes a result that rank 1 has not summed."""
    return Schedule.from_steps(
        [
            [Step("send", 1, 0, 2), Step("recv", 1, 0, 2)],
            [Step("recv", 0, 0, 2), Step("send", 0, 0, 2)],
        ],
        2,
    )


def refused():
    """Right, but the executor cannot do it: one message makes half of a result."""
    steps = [
        [Step("send", 1, 0, 2), Step("recv", 1, 0, 1), Step("recv", 1, 1, 2)],
        [Step("recv_reduce", 0, 0, 2), Step("send", 0, 0, 1), Step("send", 0, 1, 2)],
    ]
    for mine, verbs in zip(steps, [("send", "recv"), ("recv", "send")], strict=True):
        mine += [Step(verb, 1 if mine is steps[0] else 0, 1, 2) for verb in verbs]
    return Schedule.from_steps(steps, 2)


@pytest.mark.parametrize(
    ("make", "match"),
    [(broken, "contribution of rank 1 is missing"), (refused, "rank 1: executor: step 0")],
)
def test_a_wrong_one_is_an_error_on_every_rank_and_nothing_is_sent(pair, make, match):
    schedule = make()
    tensors = [torch.ones(8), torch.ones(8)]
    for error in errors_on_threads(
        pair, lambda c: c.all_reduce(tensors[c.rank], schedule=schedule)
    ):
        assert isinstance(error, pat.ScheduleError)
        with pytest.raises(pat.ScheduleError, match=match):
            raise error
    assert [c.stats() for c in pair] == [[], []]
    on_threads(pair, lambda c: c.all_reduce(tensors[c.rank]))
    assert tensors[0].eq(2).all()
    assert tensors[1].eq(2).all()


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"schedule": "ring"}, TypeError, "expected a patallreduce.Schedule, got str on rank 1"),
        ({"schedule": pat.schedule("ring", 3)}, pat.ScheduleError, "for 2 ranks, got one for 3 on"),
        ({"schedule": pat.schedule("ring", 2, 9)}, pat.ScheduleError, "1 to 8 segments.*got 9 on"),
        ({"schedule": pat.schedule("flat_reduce", 2, collective="reduce")}, pat.ScheduleError,
         "expected one for all_reduce, got flat_reduce for reduce on rank 1"),
        ({"algorithm": "ring"}, ValueError, "a schedule or algorithm, got both on rank 1"),
        ({"segments": 2}, ValueError, "a schedule or segments, got both"),
        ({"arrivals_s": [0.0, 1.0]}, ValueError, "a schedule or arrivals_s, got both"),
        ({"segment_time_s": 0.0}, ValueError, "a schedule or segment_time_s, got both"),
        ({"op": "xor"}, ValueError, "sum, avg, min, max, prod, got 'xor'"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_arguments(communicators_of, arguments, error, match):
    with pytest.raises(error, match=match):
        communicators_of(2)[1].all_reduce(
            torch.ones(8), **{"schedule": pat.schedule("ring", 2), **arguments}
        )


def test_bad_arguments_of_other_collectives(communicators_of):
    one = communicators_of(2)[0]
    to_1 = pat.schedule("flat_reduce", 2, collective="reduce", root=1)
    with pytest.raises(pat.ScheduleError, match="root: expected 1, the schedule's, or none, got 0"):
        one.reduce(torch.ones(8), 0, schedule=to_1)
    with pytest.raises(ValueError, match="a schedule or algorithm, got both"):
        one.reduce(torch.ones(8), algorithm="clairvoyant", schedule=to_1)
    with pytest.raises(pat.ScheduleError, match="all_gather a multiple of 2 segments.*got 3"):
        one.all_gather(
            torch.ones(8), schedule=pat.schedule("ring_all_gather", 2, 3, collective="all_gather")
        )
    exchange = pat.schedule("pairwise_all_to_all", 2, 4, collective="all_to_all")
    with pytest.raises(pat.ScheduleError, match="unknown collective 'all_to_all'"):
        one.session.engine.given(exchange)


def differ():
    """Rank 1 takes the parts of a ring in another order than the others."""
    with pat.Communicator(timeout_s=10, link=LINK) as communicator:
        ring = pat.schedule("ring", 3, 3)
        steps = [ring.steps(rank) for rank in range(3)]
        shifted = [[Step(s.verb, s.peer, (s.first + 1) % 3, (s.first + 1) % 3 + 1) for s in of]
                   for of in steps]  # fmt: skip
        mine = Schedule.from_steps(shifted if communicator.rank == 1 else steps, 3)
        pat.verify(mine)
        communicator.all_reduce(torch.ones(30), schedule=mine)


def test_different_steps_are_a_mismatch_on_every_rank(processes):
    errors = [outcome.error for outcome in processes.outcomes(3, differ)]
    for error in errors:  # of either pair
        assert isinstance(error, pat.MismatchError)
        assert "rank 1 called 30 elements of float32, sum, custom#" in str(error)


def wait_until(condition, timeout_s=10.0):
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_a_late_rank_begins_early_once_it_knows_the_steps():
    """Until then it is not sent anything that it could take; the sum is right all the same."""
    communicators = pat.Communicator.loopback(4, timeout_s=20, link=LINK)
    late = communicators[3]
    schedule = pat.schedule("slt", 4, 64, [0, 0, 0, 1])

    def reduce_early(count):
        tensors = [torch.full((count,), float(rank)) for rank in range(4)]
        return tensors, [
            c.all_reduce(tensors[c.rank], schedule=schedule, async_op=True)
            for c in communicators[:3]
        ]

    tensors, works = reduce_early(1000)
    time.sleep(0.2)
    assert late.session.engine.scratch_peak_bytes == 0
    late.all_reduce(tensors[3], schedule=schedule)
    for work in works:
        work.wait()
    assert all(tensor.eq(6).all() for tensor in tensors)

    assert late.session.engine.scratch_peak_bytes < 1_000_000
    tensors, works = reduce_early(1_000_000)
    wait_until(lambda: late.session.engine.scratch_peak_bytes >= 4_000_000)
    assert tensors[3].eq(3).all(), "its own memory is untouched until it comes"
    late.all_reduce(tensors[3], schedule=schedule)
    for work in works:
        work.wait()
    assert all(tensor.eq(6).all() for tensor in tensors)
    on_threads(communicators, pat.Communicator.close)


def test_more_than_are_kept_compiled(pair):
    schedules = [
        Schedule.from_steps(
            [pat.schedule("ring", 2, 2).steps(r) for r in range(2)], 2, algorithm=f"number {i}"
        )
        for i in range(300)
    ]

    def run(communicator):
        for schedule in [*schedules, schedules[0]]:
            tensor = torch.ones(10)
            communicator.all_reduce(tensor, schedule=schedule)
            assert tensor.eq(2).all()

    on_threads(pair, run)


@pytest.mark.parametrize("name", ["", "n" * 200, "\N{SNOWMAN}" * 40, "x" + "\N{SNOWMAN}" * 40])
def test_any_name(pair, name):
    steps = [pat.schedule("ring", 2, 2).steps(rank) for rank in range(2)]
    schedule = Schedule.from_steps(steps, 2, algorithm=name)

    def run(communicator):
        tensor = torch.ones(10)
        communicator.all_reduce(tensor, schedule=schedule)
        assert tensor.eq(2).all()
        return communicator.stats()[-1]["schedule"]

    for said in on_threads(pair, run):
        ran, _, rest = said.partition("#")
        assert name.startswith(ran)
        assert len(ran.encode()) >= min(len(name.encode()), 45)
        assert rest.endswith(" with 2 segments")
