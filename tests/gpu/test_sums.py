"""Every algorithm over fake streams, whose work is late at random: right sums to the bit."""

import random
import time

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Schedule, Step
from tests.gpu.ranks import Bucket, Ranks

COLLECTIVES = ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast"]
NAMES = [(collective, name) for collective in COLLECTIVES for name in pat.algorithms(collective)]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8]
OPTIONS = [
    {},
    {"early_out": True},
    {"ports": 4, "regions": 1},
    {"regions": 3, "early_out": True},
    {"lanes": 2},
    {"lanes": 3, "regions": 8, "early_out": True},
    {"lanes": 2, "ports": 3, "regions": 1, "early_out": True},
]


def bucket_of(schedule, draw):
    """Sums have any dtype and operation; what is only moved is moved as a sum."""
    summed = schedule.collective in {"all_reduce", "reduce", "reduce_scatter"}
    op = draw.choice(["sum", "avg", "min", "max", "prod"]) if summed else "sum"
    count = draw.randint(0, 15 * schedule.segments)
    dtype = draw.choice(DTYPES)
    return Bucket(schedule, count, dtype, op, draw.getrandbits(30), **draw.choice(OPTIONS))


def run_all(ranks, buckets):
    """All in flight at once, every rank in its own time."""

    def one_rank(rank):
        tickets = [bucket.submit(ranks, rank) for bucket in buckets]
        for ticket in tickets:
            ranks.executors[rank].wait(ticket)
        ranks.libraries.synchronise(ranks.consumers[rank])

    ranks.each(one_rank)


def same_bits(a, b):
    return a.shape == b.shape and bytes(a.view(torch.uint8).numpy()) == bytes(
        b.view(torch.uint8).numpy()
    )


@pytest.mark.parametrize(("collective", "name"), NAMES)
def test_every_algorithm(collective, name, ranks_of):
    draw = random.Random(name)
    for count in [1, 2, 3, 4, 5, 7, 8]:
        buckets = []
        for _ in range(3 if count < 7 else 2):
            arrivals_s = [draw.choice([0.0, 1.0, 2.5]) for _ in range(count)]
            segments = draw.randint(1, 2 * count)
            schedule = pat.schedule(
                name,
                count,
                segments,
                arrivals_s,
                collective=collective,
                root=draw.randrange(count),
                segment_time_s=0.5,
            )
            buckets.append(bucket_of(schedule, draw))

        run_all(ranks_of(count), buckets)

        for bucket in buckets:
            assert same_bits(bucket.seen, bucket.expected()), (count, bucket.op, bucket.dtype)


@settings(max_examples=60, derandomize=True, database=None)
@given(data=st.data())
def test_any_messages(data, ranks_of):
    """Whatever a schedule sends to and fro, with several ports and messages of several segments."""
    count, segments = 4, data.draw(st.integers(1, 4))
    steps = [[] for _ in range(count)]
    for _ in range(data.draw(st.integers(1, 20))):
        sender, receiver = data.draw(st.permutations(range(count)))[:2]
        first = data.draw(st.integers(0, segments - 1))
        last = data.draw(st.integers(first + 1, segments))
        verb = data.draw(st.sampled_from(["recv", "recv_reduce"]))
        steps[sender].append(Step("send", receiver, first, last))
        steps[receiver].append(Step(verb, sender, first, last))
    collective = data.draw(st.sampled_from(["all_reduce", "reduce"]))
    schedule = Schedule.from_steps(steps, segments, collective=collective)
    options = data.draw(st.sampled_from(OPTIONS))
    op = data.draw(st.sampled_from(["sum", "avg"]))
    try:
        bucket = Bucket(schedule, 7 * segments, torch.float32, op, 1, **options)
    except pat.ScheduleError as error:
        assume("last to write some" not in str(error))
        raise

    run_all(ranks_of(count), [bucket])

    # What nobody sends or adds to is no sum: it stays as it came, also in an average.
    touched = bucket.expected()
    for rank in range(count):
        for s, part in bucket.segments():
            if not any(step.first <= s < step.last for step in steps[rank]):
                touched[rank, part] = bucket.given[rank, part]
    assert same_bits(bucket.home, touched)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["ring", "slt", "rabenseifner", "reproducible"])
def test_many_buckets_in_flight_iteration_after_iteration(name, options, ranks_of):
    """Results are read behind join() alone, and the next iteration uses the same memory."""
    ranks = ranks_of(4)
    buckets = [
        Bucket(pat.schedule(name, 4, 8), 40 + n, torch.float32, "avg", n, **options)
        for n in range(12)
    ]
    expected = [bucket.expected() for bucket in buckets]
    for _ in range(3):
        for bucket in buckets:
            bucket.seen.fill_(77)

        run_all(ranks, buckets)

        for bucket, right in zip(buckets, expected, strict=True):
            assert same_bits(bucket.seen, right)


def test_scratch_does_not_grow_with_what_is_in_flight(ranks_of):
    ranks = ranks_of(3)
    bucket = Bucket(pat.schedule("ring", 3, 6), 60, torch.float32, "sum", 1, early_out=True)
    run_all(ranks, [bucket])
    before = [executor.memory_bytes for executor in ranks.executors]

    run_all(ranks, [bucket] * 40)

    assert [executor.memory_bytes for executor in ranks.executors] == before


def test_a_rank_with_a_late_contribution_holds_nobody_up_for_nothing(ranks_of):
    """Early in: what rank 1 only has to receive goes on while its contribution is not there."""
    ranks = ranks_of(2)
    steps = [[Step("send", 1, 0, 1)], [Step("recv_reduce", 0, 0, 1)]]
    schedule = Schedule.from_steps(steps, 1, collective="reduce", root=1)
    bucket = Bucket(schedule, 10, torch.float32, "sum", 1)
    ranks.libraries.sleep(ranks.producers[1], 300)

    tickets = ranks.each(lambda rank: bucket.submit(ranks, rank))

    assert ranks.executors[0].has_result(tickets[0], 5.0)
    assert not ranks.executors[1].has_result(tickets[1], 0.0)
    ranks.executors[1].wait(tickets[1])
    ranks.each(lambda rank: ranks.libraries.synchronise(ranks.consumers[rank]))
    assert same_bits(bucket.home, bucket.expected())


@pytest.mark.parametrize(("lanes", "comes"), [(1, 1), (2, 4)])
def test_the_late_end_of_a_chain_is_given_everything_before_its_contribution(
    lanes, comes, libraries
):
    schedule = pat.schedule("slt", 4, 4, [0.0, 0.0, 0.0, 1.0])
    options = {"lanes": lanes, "regions": 4, "early_out": True}
    bucket = Bucket(schedule, 40, torch.float32, "sum", 1, **options)
    ranks = Ranks(libraries, 4)
    try:
        libraries.sleep(ranks.producers[3], 400)
        tickets = ranks.each(lambda rank: bucket.submit(ranks, rank))
        seen = []
        while bucket.home[3, 0] == 77:  # its producing stream still sleeps
            seen.append(libraries.received(ranks.unique_ids, 3))
            time.sleep(0.01)
        ranks.each(lambda rank: ranks.executors[rank].wait(tickets[rank]))
        ranks.each(lambda rank: libraries.synchronise(ranks.consumers[rank]))
    finally:
        ranks.close()

    assert max(seen[:-2]) == comes
    assert same_bits(bucket.seen, bucket.expected())
