"""No schedule is faster than the bound, and some reach it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.bucket import Bucket, make_schedule

LINK = pat.Link(20e-6, 125e6, 1e15)
NAMES = [name for name in sorted(pat.algorithms()) if name != "slt_dynamic"]


@st.composite
def cases(draw):
    ranks = draw(st.integers(1, 10))
    link = pat.Link(
        draw(st.sampled_from([1e-6, 50e-6, 1e-3])),
        draw(st.sampled_from([1e7, 1e9])),
        draw(st.sampled_from([5e9, 1e15])),
        port_share=draw(st.sampled_from([0.0, 0.25, 1.0])),
        change_share=draw(st.sampled_from([0.0, 0.0, 0.4])),
        partners=draw(st.sampled_from([1, 1, 2.5, 20])),
        burst_bytes=draw(st.sampled_from([0, 0, 500, 33_000, 1 << 20])),
        processors=draw(st.sampled_from([0, 0, 0, 1, 2, 5, 20])),
    )
    message_bytes = draw(st.sampled_from([0, 1, 1000, 1 << 16, 1 << 22]))
    scale = link.transfer_s(message_bytes) + link.latency_s
    shares = draw(st.lists(st.floats(0, 3), min_size=ranks, max_size=ranks))
    return link, message_bytes, [scale * share for share in shares]


@given(cases(), st.sampled_from(sorted(pat.algorithms())))
@settings(max_examples=500, derandomize=True, database=None)
def test_no_schedule_is_faster(case, name):
    link, message_bytes, arrivals_s = case
    schedule = make_schedule(name, Bucket(len(arrivals_s), message_bytes, link), arrivals_s)
    found = pat.simulate(schedule, link, message_bytes, arrivals_s)
    bound = pat.lower_bound(link, message_bytes, arrivals_s)
    rounding = 1 + 1e-9
    assert bound.last_finish_s <= rounding * max(found.finish_s)
    assert bound.average_elapsed_s <= rounding * found.average_elapsed_s + 1e-12
    assert all(b <= rounding * f for b, f in zip(bound.finish_s, found.finish_s, strict=True))


@st.composite
def iterations(draw):
    """Several buckets, each by an algorithm."""
    link, message_bytes, arrivals_s = draw(cases())
    scale = link.transfer_s(message_bytes) + link.latency_s
    rows = [arrivals_s]
    for _ in range(draw(st.integers(1, 4))):
        later = draw(st.lists(st.floats(0, 2), min_size=len(rows[0]), max_size=len(rows[0])))
        rows.append([at_s + scale * by for at_s, by in zip(rows[-1], later, strict=True)])
    names = draw(st.lists(st.sampled_from(NAMES), min_size=len(rows), max_size=len(rows)))
    return link, message_bytes, rows, names


@given(iterations())
@settings(max_examples=300, derandomize=True, database=None)
def test_no_iteration_is_faster(case):
    link, message_bytes, rows, names = case
    ranks = len(rows[0])
    collectives = []
    for name, row in zip(names, rows, strict=True):
        schedule = make_schedule(name, Bucket(ranks, message_bytes, link), row)
        collectives.append((_core.Simulation(schedule), message_bytes, [], row, 1))
    finish_s, _ = _core.simulate_together(collectives, link)
    bound = pat.lower_bound(link, [message_bytes] * len(rows), rows)
    rounding = 1 + 1e-9
    last_s = [max(column) for column in zip(*finish_s, strict=True)]
    assert bound.last_finish_s <= rounding * max(last_s)
    assert all(b <= rounding * f for b, f in zip(bound.finish_s, last_s, strict=True))


@given(cases())
@settings(max_examples=100, derandomize=True, database=None)
def test_one_bucket_is_an_iteration_of_one(case):
    link, message_bytes, arrivals_s = case
    alone = pat.lower_bound(link, message_bytes, arrivals_s)
    assert pat.lower_bound(link, [message_bytes], [arrivals_s]) == alone


def test_buckets_pass_the_ports_one_after_the_other():
    transfer_s = LINK.transfer_s(1 << 30)
    rows = [[0.0] * 4, [0.1 * transfer_s] * 4, [10 * transfer_s] * 4]
    two = pat.lower_bound(LINK, [1 << 30] * 2, rows[:2]).last_finish_s
    assert two / transfer_s == pytest.approx(2 * 2 * 3 / 4, rel=1e-4)
    three = pat.lower_bound(LINK, [1 << 30] * 3, rows).last_finish_s
    assert three / transfer_s == pytest.approx(10 + 2 * 3 / 4, rel=1e-4)


def test_what_the_last_rank_holds_back_leaves_its_port_bucket_after_bucket():
    transfer_s = LINK.transfer_s(1 << 30)
    rows = [[0.0, 0.0, 5 * transfer_s], [0.0, 0.0, 5.5 * transfer_s]]
    bound = pat.lower_bound(LINK, [1 << 30] * 2, rows)
    assert bound.finish_s[0] / transfer_s == pytest.approx(7, rel=1e-4)
    assert bound.finish_s[2] / transfer_s == pytest.approx(5.5, rel=1e-4)


@pytest.mark.parametrize(
    ("sizes", "rows", "told"),
    [
        ([1, 1], [[0.0, 1.0]], "of 2 buckets, one or more, got 1"),
        ([], [], "of 0 buckets"),
        ([1, 1], [[0.0, 1.0], [0.0]], "per rank and bucket, got of the buckets 2, 1"),
    ],
)
def test_an_iteration_has_arrivals_of_each_rank_and_bucket(sizes, rows, told):
    with pytest.raises(pat.ScheduleError, match=told):
        pat.lower_bound(LINK, sizes, rows)


def test_two_ranks_that_exchange_reach_it():
    bound = pat.lower_bound(LINK, 10**6, [0.0, 0.0])
    schedule = pat.schedule("recursive_doubling", 2, 1)
    found = pat.simulate(schedule, LINK, 10**6)
    assert found.finish_s == pytest.approx(bound.finish_s)
    assert max(found.finish_s) == pytest.approx(bound.last_finish_s)


@pytest.mark.parametrize(
    ("ranks", "transfer_s", "after_s"),
    [
        (2, 3.0, 3 + 1),  # nobody could pass it on
        (3, 0.1, 2 * 0.1 + 1),  # it is sent to both
        (3, 0.5, 2 * 0.5 + 1),
        (3, 3.0, 3 + 2 - 1 / 2),  # the last half a second's bytes to both, all others to one
        (9, 3.0, 3 + 2 - 1 / 8),
    ],
)
def test_over_a_long_way_most_of_the_last_ranks_data_fly_twice(ranks, transfer_s, after_s):
    link = pat.Link(1.0, 1e6, 1e15, port_share=0.0)
    bound = pat.lower_bound(link, int(1e6 * transfer_s), [-100.0] * (ranks - 1) + [0.0])
    assert bound.last_finish_s == pytest.approx(after_s)


@pytest.mark.parametrize("ranks", [2, 5, 48])
def test_together_a_ring_moves_the_least(ranks):
    message_bytes = 1 << 30
    least_s = 2 * (ranks - 1) / ranks * LINK.transfer_s(message_bytes)
    last_s = pat.lower_bound(LINK, message_bytes, [7.0] * ranks).last_finish_s - 7
    assert last_s == pytest.approx(least_s, rel=1e-4)


def test_late_ranks_leave_less_to_be_moved():
    """Three of eight, after all others are done: (3 - 1 + 8 - 1) / 8 transfers."""
    transfer_s = LINK.transfer_s(1 << 30)
    arrivals_s = [0.0] * 5 + [3 * transfer_s] * 3
    bound = pat.lower_bound(LINK, 1 << 30, arrivals_s)
    assert bound.last_finish_s / transfer_s - 3 == pytest.approx(9 / 8, rel=1e-4)
    assert bound.finish_s[0] == bound.finish_s[7] == pytest.approx(4 * transfer_s, rel=1e-4)


def test_the_last_rank_alone_is_told_at_once():
    """Its own result may be there when it arrives; the others wait for its data."""
    bound = pat.lower_bound(LINK, 1 << 20, [0.0, 0.0, 0.0, 5.0])
    assert bound.finish_s[3] == 5.0
    assert bound.finish_s[0] == 5.0 + LINK.transfer_s(1 << 20) + LINK.latency_s


def test_latency_alone_is_a_broadcast():
    """A port tells the next one after a quarter of the latency: 1, then 4 more in the next, ..."""
    assert pat.lower_bound(LINK, 0, [0.0] * 5).last_finish_s == pytest.approx(1.75 * LINK.latency_s)
    whole = pat.Link(1e-3, 1e9, port_share=1.0)  # doubling
    assert pat.lower_bound(whole, 0, [0.0] * 33).last_finish_s == pytest.approx(6e-3)


def test_one_rank_has_its_result():
    assert pat.lower_bound(LINK, 1 << 20, [2.0]) == pat.Bound((2.0,), 2.0, 0.0)
    with pytest.raises(pat.ScheduleError, match="expected one arrival per rank"):
        pat.lower_bound(LINK, 1, [])


@st.composite
def networks(draw):
    """Nodes behind one uplink each, or ranks of unequal links."""
    ranks = draw(st.integers(2, 8))
    latency_s = draw(st.sampled_from([1e-6, 1e-3]))
    if draw(st.booleans()):
        most = min(3, ranks - 1)
        nodes = draw(st.lists(st.integers(0, most), min_size=ranks, max_size=ranks))
        port = draw(st.sampled_from([1e7, 1e9]))
        return ranks, pat.Network(
            pat.Link(latency_s, port),
            nodes=nodes,
            within_node=pat.Link(1e-7, 1e11),
            uplink_bytes_per_s=draw(st.sampled_from([port, port / 3, (port, port / 3) * 2])),
            shared_ports=draw(st.booleans()),
        )
    rates = draw(st.lists(st.sampled_from([1e7, 3e7, 1e8]), min_size=ranks, max_size=ranks))
    return ranks, pat.Network([pat.Link(latency_s, rate) for rate in rates])


@given(networks(), st.sampled_from(NAMES), st.data())
@settings(max_examples=300, derandomize=True, database=None)
def test_no_schedule_is_faster_on_a_network(case, name, data):
    ranks, network = case
    message_bytes = 1 << 20
    arrivals_s = data.draw(st.lists(st.floats(0, 0.3), min_size=ranks, max_size=ranks))
    nodes = network.nodes if data.draw(st.booleans()) else None
    schedule = pat.schedule(name, ranks, 2 * ranks, arrivals_s, nodes=nodes)
    found = pat.simulate(schedule, network, message_bytes, arrivals_s)
    bound = pat.lower_bound(network, message_bytes, arrivals_s)
    rounding = 1 + 1e-9
    assert bound.last_finish_s <= rounding * max(found.finish_s)
    assert all(b <= rounding * f for b, f in zip(bound.finish_s, found.finish_s, strict=True))


def test_ports_of_unequal_rates():
    """8 ranks, one at half speed: it takes in, and gives out, the whole message."""
    fast, transfer_s = 125e6, (1 << 30) / 125e6

    def least(*rates):
        network = pat.Network([pat.Link(1e-9, fast * rate) for rate in rates])
        return pat.lower_bound(network, 1 << 30, [0.0] * len(rates)).last_finish_s / transfer_s

    assert least(*[1.0] * 7, 0.5) == pytest.approx(2.0, rel=1e-4)
    assert least(*[1.0] * 7, 0.1) == pytest.approx(10.0, rel=1e-4)
    assert least(*[1.0] * 4, *[0.25] * 4) == pytest.approx(4.0, rel=1e-4)
    assert least(*[1.0] * 7, 0.9) == pytest.approx(2 * 7 / 7.9, rel=1e-4)


def test_a_node_is_like_one_rank():
    transfer_s = LINK.transfer_s(1 << 30)
    network = pat.Network(
        LINK,
        nodes=[0, 0, 1, 1, 2, 2],
        within_node=pat.Link(1e-6, 1e11),
        uplink_bytes_per_s=LINK.bytes_per_s,
    )
    together = pat.lower_bound(network, 1 << 30, [0.0] * 6)
    assert together.last_finish_s / transfer_s == pytest.approx(2 * 2 / 3, rel=1e-4)
    late = pat.lower_bound(network, 1 << 30, [0.0, 0.0, 0.0, 9 * transfer_s, 0.0, 0.0])
    assert late.last_finish_s / transfer_s == pytest.approx(10, rel=1e-4)
    assert late.finish_s[2] == late.finish_s[3] == 9 * transfer_s


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (pat.Network([LINK] * 3), "expected 2 links, got 3"),
        (pat.Network(LINK, nodes=[0]), "expected 2 nodes, got 1"),
        (pat.Network(pat.LogGP(1e-6, 1e-6, 1e-6, 1e-9)), "a network of Links"),
    ],
)
def test_a_network_fits_its_ranks(network, told):
    with pytest.raises(pat.ScheduleError, match=told):
        pat.lower_bound(network, 1, [0.0, 0.0])


def test_processors_receive_while_the_last_message_flies():
    """Two ranks send each other all, of which a processor moves a half at either end: 0.05 us."""
    link = pat.Link(1e-6, 1e7, 1e15, port_share=0.0, processors=1)
    found = pat.simulate(pat.schedule("recursive_doubling", 2, 1), link, 1)
    bound = pat.lower_bound(link, 1, [0, 0]).last_finish_s
    assert bound == pytest.approx(1.1e-6)
    assert max(found.finish_s) == pytest.approx(1.15e-6)
