"""The algorithms of every collective: proved, and counted against the closed forms of TUNE07.

TUNE07 is Pjesivac-Grbovic's thesis (Tennessee, 2007), tables 4.2 to 4.10. Hockney's model without
reduction cost gives a number of message times, which `exit_times` counts in a schedule: one message
in and one out at a time, in program order.
"""

import math
from pathlib import Path

import pytest

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.selection import choose_segments

COLLECTIVES = ["all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather", "barrier"]
REGISTERED = [
    (algorithm.name, algorithm.collective, algorithm.uses_arrivals)
    for algorithm in _core.algorithms()
    if algorithm.collective in COLLECTIVES
]
NEW = [(name, of) for name, of, _ in REGISTERED if of != "all_reduce"]
ROOTED = [name for name, of in NEW if of in {"reduce", "broadcast"}]
ALGORITHMS = Path(__file__).parents[2] / "csrc" / "algorithms"


def steps_of(schedule):
    return [step for rank in range(schedule.ranks) for step in schedule.steps(rank)]


def sent(schedule, rank=None):
    """Segments sent, by one rank or by all."""
    steps = steps_of(schedule) if rank is None else schedule.steps(rank)
    return sum(step.last - step.first for step in steps if step.verb == "send")


def taken(schedule, rank):
    return sum(s.last - s.first for s in schedule.steps(rank) if s.verb != "send")


def rounds(schedule):
    found = {step.round for step in steps_of(schedule)}
    assert found == set(range(len(found)))
    return len(found)


def floor_log2(n):
    return n.bit_length() - 1


def ceil_log2(n):
    return (n - 1).bit_length()


def patterns(ranks):
    yield None
    yield [float(rank * 7 % ranks) for rank in range(ranks)]
    yield [1000.0 if rank == ranks // 2 else 0.0 for rank in range(ranks)]


def test_every_name_means_one_algorithm_in_its_collective():
    names = [(a.name, a.collective) for a in _core.algorithms()]
    assert len(names) == len(set(names))
    alone = [name for name, _ in names if name != "clairvoyant"]  # a reduce and an all-reduce
    assert len(alone) == len(set(alone)) == len(names) - 2
    assert {a.collective for a in _core.algorithms()} == {*COLLECTIVES, "all_to_all", "shift"}


@pytest.mark.parametrize(("name", "collective"), NEW)
def test_every_file_tells_cost_and_source(name, collective):
    source = ALGORITHMS / collective / f"{name}.cpp"
    head = source.read_text(encoding="utf-8").partition("#include")[0]
    for word in ("messages", "source"):
        assert f"//   {word}" in head


@pytest.mark.parametrize(("name", "collective", "uses_arrivals"), REGISTERED)
def test_verified(name, collective, uses_arrivals):
    for ranks in [*range(1, 10), 12, 16, 17]:
        for root in range(ranks) if name in ROOTED or collective == "barrier" else [0]:
            for segments in {1, 2, 3, ranks, 3 * ranks + 1}:
                for arrivals_s in patterns(ranks) if uses_arrivals else [None]:
                    schedule = pat.schedule(
                        name,
                        ranks,
                        segments,
                        arrivals_s,
                        collective=collective,
                        root=root,
                        segment_time_s=0.3,
                    )
                    pat.verify(schedule)


@pytest.mark.parametrize(("name", "collective"), NEW)
def test_one_rank_has_nothing_to_do(name, collective):
    assert pat.schedule(name, 1, 5, collective=collective).steps(0) == []


@pytest.mark.parametrize(("name", "collective"), NEW)
def test_messages_carry_one_segment_or_nothing(name, collective):
    steps = steps_of(pat.schedule(name, 7, 16, collective=collective, root=3))
    expected = 16 if collective == "barrier" else 1
    assert {step.last - step.first for step in steps} == {expected}


@pytest.mark.parametrize(("name", "collective"), NEW)
def test_one_rank_of_a_thousand_is_generated_alone(name, collective):
    """Steps of a rank grow with its own messages, not with all."""
    steps = _core.generate_steps(name, 500, 1000, 64, root=1)
    assert {step.peer for step in steps} <= set(range(1000)) - {500}
    assert len(steps) <= 4 * 64 + 2 * 10 * 64


# Trees.


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 16, 17])
@pytest.mark.parametrize("segments", [1, 4])
@pytest.mark.parametrize("root", [0, 1])
def test_trees_send_every_segment_once_to_everybody_but_the_root(ranks, segments, root):
    for name, collective in NEW:
        if collective == "broadcast" or name in {
            "flat_reduce",
            "chain_reduce",
            "k_chain_reduce",
            "binomial_reduce",
            "binary_reduce",
            "local_redirect_reduce",
        }:
            schedule = pat.schedule(name, ranks, segments, collective=collective, root=root)
            assert sent(schedule) == (ranks - 1) * segments, name
            assert (collective == "reduce") == (sent(schedule, root) == 0), name
    schedule = pat.schedule(
        "in_order_binary_reduce", ranks, segments, collective="reduce", root=root
    )
    assert sent(schedule) == (ranks - (root == ranks - 1)) * segments


def message_times(exit_times, name, ranks, segments, collective):
    schedule = pat.schedule(name, ranks, segments, collective=collective)
    times = exit_times(schedule, [0.0] * ranks)
    return times[0] if collective == "reduce" else max(times)


SHAPES = [(ranks, segments) for ranks in range(2, 18) for segments in (1, 2, 5)]


@pytest.mark.parametrize("collective", ["reduce", "broadcast"])
def test_flat_takes_one_message_after_the_other(collective, exit_times):
    for ranks, segments in SHAPES:
        times = message_times(exit_times, f"flat_{collective}", ranks, segments, collective)
        assert times == segments * (ranks - 1)


@pytest.mark.parametrize("collective", ["reduce", "broadcast"])
def test_a_chain_is_filled_and_drained(collective, exit_times):
    for ranks, segments in SHAPES:
        times = message_times(exit_times, f"chain_{collective}", ranks, segments, collective)
        assert times == ranks + segments - 2


@pytest.mark.parametrize("collective", ["reduce", "broadcast"])
def test_binomial_trees_gain_nothing_from_segments(collective, exit_times):
    for ranks, segments in SHAPES:
        times = message_times(exit_times, f"binomial_{collective}", ranks, segments, collective)
        if segments == 1:
            assert times == ceil_log2(ranks)
        assert times >= segments * ceil_log2(ranks)
        if collective == "broadcast" or 2 ** floor_log2(ranks) == ranks:
            assert times == segments * ceil_log2(ranks)


@pytest.mark.parametrize("collective", ["reduce", "broadcast"])
def test_binary_trees_take_two_messages_a_level_and_a_segment(collective, exit_times):
    """Table 4.3 and 4.8: exact for complete trees, an upper bound for others."""
    for ranks, segments in SHAPES:
        times = message_times(exit_times, f"binary_{collective}", ranks, segments, collective)
        published = 2 * (ceil_log2(ranks + 1) + segments - 2)
        assert times <= published
        if ranks in {3, 7, 15}:
            assert times == published


def test_split_binary_takes_half_of_the_pipeline(exit_times):
    """Table 4.3: two messages a level and pair of halves, then half of the data in exchange."""
    for ranks in (3, 7, 15):
        for segments in (2, 4, 8):
            times = message_times(
                exit_times, "split_binary_broadcast", ranks, segments, "broadcast"
            )
            forward = 2 * (ceil_log2(ranks + 1) + segments // 2 - 2)
            assert times <= forward + segments / 2
            assert times < message_times(
                exit_times, "binary_broadcast", ranks, segments, "broadcast"
            ) + (ranks == 3)


def test_split_binary_sends_half_of_the_data_to_each_side():
    schedule = pat.schedule("split_binary_broadcast", 7, 10, collective="broadcast", root=2)
    assert sent(schedule, 2) == 10
    assert [taken(schedule, rank) for rank in range(7)] == [10, 10, 0, 10, 10, 10, 10]
    assert max(sent(schedule, rank) for rank in range(7)) == 15


@pytest.mark.parametrize("ranks", range(2, 18))
def test_the_chains_of_a_k_chain_are_of_near_equal_length(ranks):
    schedule = pat.schedule("k_chain_reduce", ranks, 1, collective="reduce")
    chains = [step.peer for step in schedule.steps(0)]
    assert len(chains) == min(4, ranks - 1)
    ends = [*chains[1:], ranks]
    lengths = [end - first for first, end in zip(chains, ends, strict=True)]
    assert sum(lengths) == ranks - 1
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("ranks", range(1, 18))
def test_in_order_sums_keep_the_ranks_in_their_order(ranks):
    def leaves(order):
        return [order] if isinstance(order, int) else leaves(order[0]) + leaves(order[1])

    for root in {0, ranks // 2, ranks - 1}:
        schedule = pat.schedule("in_order_binary_reduce", ranks, 2, collective="reduce", root=root)
        for order in schedule.sum_orders()[root]:
            assert leaves(order) == list(range(ranks))


@pytest.mark.parametrize("ranks", [1, 2, 3, 6, 9, 16, 17])
def test_binomial_sums_are_the_reproducible_tree(ranks, unordered):
    tree = unordered(pat.schedule("reproducible", ranks, 1).sum_orders()[0][0])
    schedule = pat.schedule("binomial_reduce", ranks, 3, collective="reduce")
    assert {unordered(order) for order in schedule.sum_orders()[0]} == {tree}
    assert pat.schedule("binomial_all_reduce", ranks, 3).tree


@pytest.mark.parametrize("ranks", range(2, 18))
def test_a_rank_is_a_leaf_of_one_of_two_trees(ranks):
    """Whoever sums in both trees would be a bottleneck; rank 0 may, if P is odd."""
    schedule = pat.schedule("two_tree", ranks, 2)
    for rank in range(ranks):
        sums = [step.first for step in schedule.steps(rank) if step.verb == "recv_reduce"]
        in_both = set(sums) == {0, 1}
        assert not in_both or (rank == 0 and ranks % 2 == 1)
        assert len(sums) <= 2 or rank == 0
    assert sent(schedule) == 2 * (ranks - 1) * 2


def test_two_trees_beat_one_binomial_tree_for_large_messages():
    link = pat.Link(10e-6, 1e9)
    two = pat.simulate(pat.schedule("two_tree", 16, 64), link, 64 << 20)
    one = pat.simulate(pat.schedule("binomial_all_reduce", 16, 64), link, 64 << 20)
    assert two.after_last_arrival_s < 0.75 * one.after_last_arrival_s


def test_local_redirect_never_waits_while_another_is_ready(exit_times):
    """Two late ranks: the others are summed before the first of them comes."""
    arrivals = [0.0, 20.0, 0.0, 0.0, 30.0, 0.0, 0.0, 0.0]
    schedule = pat.schedule(
        "local_redirect_reduce", 8, 1, arrivals, collective="reduce", segment_time_s=1 / 8
    )
    assert exit_times(schedule, arrivals)[0] == 31
    binomial = pat.schedule("binomial_reduce", 8, 1, collective="reduce")
    assert exit_times(binomial, arrivals)[0] == 33, "rank 4 takes two subtrees first"


@pytest.mark.parametrize("ranks", range(2, 18))
def test_local_redirect_of_equal_arrivals_is_as_fast_as_binomial(ranks, exit_times):
    schedule = pat.schedule(
        "local_redirect_reduce", ranks, 1, collective="reduce", segment_time_s=1 / ranks
    )
    assert exit_times(schedule, [0.0] * ranks)[0] == ceil_log2(ranks)


# Rounds.


def three_smooth_within(n):
    while True:
        left = n
        for prime in (2, 3):
            while left % prime == 0:
                left //= prime
        if left == 1:
            return n
        n -= 1


@pytest.mark.parametrize("ranks", range(2, 18))
def test_rounds(ranks):
    """Table 4.6 and 4.9; recursive doubling of other P takes floor(log2 P) + 2, not ceil."""
    power = 2 ** floor_log2(ranks) == ranks
    doubling = floor_log2(ranks) + (0 if power else 2)
    expected = {
        "ring_all_gather": ranks - 1,
        "pairwise_all_gather": ranks - 1,
        "bruck_all_gather": ceil_log2(ranks),
        "recursive_doubling_all_gather": doubling,
        "neighbour_exchange_all_gather": ranks // 2 + ranks % 2,
        "ring_reduce_scatter": ranks - 1,
        "recursive_halving_reduce_scatter": doubling,
        "recursive_doubling_barrier": doubling,
        "dissemination_barrier": ceil_log2(ranks),
        "double_ring_barrier": 2 * ranks - 1,
        "flat_barrier": 2,
        "rabenseifner_reduce": 2 * floor_log2(ranks) + (not power),
    }
    collectives = dict(NEW)
    for name, count in expected.items():
        schedule = pat.schedule(name, ranks, ranks, collective=collectives[name])
        assert rounds(schedule) == count, name


@pytest.mark.parametrize("cuts", [1, 3])
@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 7, 8, 16, 17])
def test_all_gathers_move_every_block_once_to_everybody(ranks, cuts):
    for name in pat.algorithms("all_gather"):
        schedule = pat.schedule(name, ranks, ranks * cuts, collective="all_gather")
        for rank in range(ranks):
            assert taken(schedule, rank) == (ranks - 1) * cuts, name
            even = name in {"ring_all_gather", "pairwise_all_gather", "bruck_all_gather"}
            if even or 2 ** floor_log2(ranks) == ranks:
                assert sent(schedule, rank) == (ranks - 1) * cuts, name


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_reduce_scatters_send_all_but_the_own_block(ranks):
    for name in pat.algorithms("reduce_scatter"):
        schedule = pat.schedule(name, ranks, 3 * ranks, collective="reduce_scatter")
        for rank in range(ranks):
            assert sent(schedule, rank) == taken(schedule, rank) == 3 * (ranks - 1), name


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 12, 16])
@pytest.mark.parametrize("root", [0, 1])
def test_reductions_in_parts_bring_two_p_minus_one_parts_to_the_root(ranks, root):
    """2 (P-1)/P of the data through the root's port: CLV16, Table 3."""
    for name in ("parallel_ring_reduce", "rabenseifner_reduce", "radix_k_reduce"):
        if name == "rabenseifner_reduce" and 2 ** floor_log2(ranks) != ranks:
            continue
        schedule = pat.schedule(name, ranks, ranks, collective="reduce", root=root)
        assert taken(schedule, root) == 2 * (ranks - 1), name


@pytest.mark.parametrize("ranks", range(2, 18))
def test_radix_k_moves_the_bytes_of_a_ring_in_fewer_rounds(ranks):
    exchanging = three_smooth_within(ranks)
    schedule = pat.schedule("radix_k", ranks, exchanging)
    most = max(sent(schedule, rank) for rank in range(ranks))
    folds = exchanging < ranks
    assert most == 2 * (exchanging - 1) + folds * exchanging
    threes, fours = 0, exchanging
    while fours % 3 == 0:
        threes, fours = threes + 1, fours // 3
    assert rounds(schedule) == 2 * (threes + (floor_log2(fours) + 1) // 2) + 2 * folds


@pytest.mark.parametrize("ranks", range(2, 18))
def test_barriers_send_as_few_messages_as_published(ranks):
    power = 2 ** floor_log2(ranks)
    expected = {
        "flat_barrier": 2 * (ranks - 1),
        "double_ring_barrier": 2 * ranks - 1,  # published: 2P, the last of them told to nobody
        "recursive_doubling_barrier": power * floor_log2(ranks) + 2 * (ranks - power),
        "dissemination_barrier": ranks * math.ceil(math.log2(ranks)),
    }
    for name, count in expected.items():
        schedule = pat.schedule(name, ranks, 1, collective="barrier")
        assert sum(step.verb == "send" for step in steps_of(schedule)) == count, name


def test_segments_are_chosen_for_trees_and_slices():
    link = pat.Link(20e-6, 1e9)

    def chosen(algorithm, ranks, message_bytes):
        return choose_segments(algorithm, ranks, message_bytes, message_bytes // 4, link)

    assert [chosen("binomial_all_reduce", 8, n) for n in (4, 1024, 512 * 1024, 8 << 20)] == [
        *[1, 1, 1, 16]
    ]
    assert [chosen("two_tree", 8, n) for n in (4, 1024, 1 << 20, 8 << 20)] == [1, 1, 18, 50]
    # Slices: 1 to 17 ranks, of 4 KiB, too small to be cut.
    assert [chosen("radix_k", ranks, ranks * 4096) for ranks in (2, 5, 7, 11, 12, 17)] == [
        *[2, 4, 6, 9, 12, 16]
    ]
