"""Right sums between processes, over UCX."""

import itertools
import random

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
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
from tests.processes import LINK

RANKS = [2, 3, 4, 5, 8]


def check_on_this_rank(communicator, case, seed):
    """Rank 0 against the reference, every other rank against rank 0."""
    count, dtype, op, algorithm = case
    rank, ranks = communicator.rank, communicator.ranks
    choose = random.Random(seed)
    segments = choose.randint(1, max(min(count, 5 * ranks), 1))
    arrivals_s = choose.choice([None, [choose.random() for _ in range(ranks)]])
    tau_s = 0.1 if algorithm == "prr" else 0.0
    parts = contributions(ranks, count, dtype, seed)
    tensor = parts[rank].clone()
    communicator.all_reduce(
        tensor, op, algorithm, segments=segments, arrivals_s=arrivals_s, segment_time_s=tau_s
    )
    what = f"{count} of {dtype}, {op}, {algorithm}, {segments} segments, {arrivals_s}"
    if algorithm == "slt_dynamic":
        arrivals_s = [0.0] * ranks
        dist.all_gather_object(arrivals_s, float(communicator.stats()[-1]["place"]))
    if rank == 0:
        times = times_s(algorithm, segments, tau_s, tensor, LINK)
        schedule = pat.schedule(algorithm, ranks, segments, arrivals_s, **times)
        assert_is_a_sum(tensor, expected(parts, op, schedule), what)
    if count:
        of_rank_0 = bits(tensor).clone()
        dist.broadcast(of_rank_0.view(torch.uint8), 0)
        assert torch.equal(bits(tensor), of_rank_0), f"rank {rank} differs: {what}"


def sums(cases):
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        for seed, case in enumerate(cases):
            check_on_this_rank(communicator, case, seed)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_dtype_op_and_small_size(processes, ranks):
    algorithms = itertools.cycle(ALGORITHMS)
    cases = itertools.product((0, 1, 7, 1000), DTYPES, OPS)
    processes.run(ranks, sums, [(*case, next(algorithms)) for case in cases])


@pytest.mark.parametrize("ranks", RANKS)
def test_a_million_elements(processes, ranks):
    """Every dtype with one op: over the numbers of ranks, each meets all five."""
    algorithms = itertools.cycle(ALGORITHMS)
    ops = list(OPS)
    cases = [
        (1_000_003, dtype, ops[(i + RANKS.index(ranks)) % len(ops)], next(algorithms))
        for i, dtype in enumerate(DTYPES)
    ]
    processes.run(ranks, sums, cases)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_a_million_elements_of_every_dtype_op_and_algorithm(processes, ranks):
    cases = itertools.product([1_000_003], DTYPES, OPS, ALGORITHMS)
    processes.run(ranks, sums, list(cases), timeout_s=300)


def twenty_in_flight(rounds):
    """Mixed sizes, dtypes and algorithms at once, waited for in another order."""
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        rank, ranks = communicator.rank, communicator.ranks
        for number in range(rounds):
            choose = random.Random(number)
            tensors = [
                torch.full((choose.choice([0, 1, 7, 1000, 30_011]),), i + rank, dtype=dtype)
                for i, dtype in enumerate([*DTYPES, *DTYPES, *DTYPES[:6]])
            ]
            works = [
                communicator.all_reduce(tensor, algorithm=choose.choice(ALGORITHMS), async_op=True)
                for tensor in tensors
            ]
            order = list(range(20))
            random.Random(rank).shuffle(order)
            for i in order:
                works[i].wait()
                assert works[i].is_completed()
                assert works[i].get_future().wait() is tensors[i]
                total = ranks * i + ranks * (ranks - 1) // 2
                assert torch.equal(tensors[i], torch.full_like(tensors[i], total)), (number, i)


@pytest.mark.parametrize("ranks", RANKS)
def test_twenty_collectives_in_flight(processes, ranks):
    processes.run(ranks, twenty_in_flight, 10)


def thousand_iterations():
    """Back to back, the tensor overwritten as soon as each returns."""
    with pat.Communicator(timeout_s=30, link=LINK) as communicator:
        rank, ranks = communicator.rank, communicator.ranks
        tensor = torch.empty(1000)
        for i in range(1000):
            tensor.fill_(i + rank)
            algorithm = ALGORITHMS[i % len(ALGORITHMS)]
            communicator.all_reduce(tensor, algorithm=algorithm)
            total = float(ranks * i + ranks * (ranks - 1) // 2)
            assert tensor.min() == tensor.max() == total, i
        assert [record["number"] for record in communicator.stats()] == list(range(1000))


@pytest.mark.parametrize("ranks", RANKS)
def test_a_thousand_iterations(processes, ranks):
    processes.run(ranks, thousand_iterations)


def chosen_by_default():
    """No algorithm, segments or link given."""
    with pat.Communicator(timeout_s=30) as communicator:
        rank, ranks = communicator.rank, communicator.ranks
        for count in (0, 1, 7, 1000, 100_003, 1_000_003):
            tensor = torch.arange(count, dtype=torch.float64) + rank
            communicator.all_reduce(tensor)
            total = torch.arange(count, dtype=torch.float64) * ranks + ranks * (ranks - 1) / 2
            assert torch.equal(tensor, total)
        return communicator.link, communicator.stats()[-1]["call"]


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_defaults(processes, ranks):
    outcomes = processes.run(ranks, chosen_by_default)
    assert len(set(outcomes)) == 1, "every rank measured and chose the same"
    assert "1000003 elements of float64, sum, " in outcomes[0][1]


def several_communicators(use_subgroups):
    """On the default group and on overlapping subgroups, used by turns."""
    rank = dist.get_rank()
    groups = [None]
    if use_subgroups:
        members = [[0, 1], [1, 2, 3], [3, 0]]
        groups += [dist.new_group(of) for of in members]
        groups = [g for g in groups if g is None or dist.get_rank(g) >= 0]
    else:
        groups.append(None)
    communicators = [pat.Communicator(group, timeout_s=30, link=LINK) for group in groups]
    for i in range(20):
        for group, communicator in zip(groups, communicators, strict=True):
            tensor = torch.tensor([float(rank + i)])
            wanted = tensor.clone()
            communicator.all_reduce(tensor)
            dist.all_reduce(wanted, group=group)
            assert torch.equal(tensor, wanted)
    dist.barrier()
    for communicator in communicators:
        communicator.close()


@pytest.mark.parametrize("use_subgroups", [False, True])
def test_several_communicators(processes, use_subgroups):
    processes.run(4, several_communicators, use_subgroups)


def make_and_use():
    with pat.Communicator(timeout_s=10, link=LINK) as communicator:
        communicator.all_reduce(torch.ones(3))


def test_a_process_that_made_communicators_before_meets_fresh_ones(processes):
    """As after a rank was replaced: the survivors remember groups of the same name."""
    processes.run(2, make_and_use)
    processes.run(3, make_and_use)
