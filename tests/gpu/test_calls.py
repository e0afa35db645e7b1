"""GPU tensors through a communicator: sums, plans, and one error for all ranks."""

import time

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.gpu_calls import GpuWork
from patallreduce.communicator.settler import Arguments
from tests.gpu.communicators import CPU, GpuRanks, stage

COUNT = 3


@pytest.fixture(name="gpus")
def gpus_fixture(libraries):
    before = libraries.count()
    made = GpuRanks(libraries, COUNT)
    yield made
    made.close()
    assert libraries.count() == before, "streams, events or memory are left"


def calls_of(communicator):
    return communicator.session.gpus.of(CPU)


def all_ok(outcomes):
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def raised(outcomes, kind):
    assert [type(outcome) for outcome in outcomes] == [kind] * len(outcomes), outcomes
    return [str(outcome) for outcome in outcomes]


@pytest.mark.parametrize("algorithm", ["auto", "ring", "slt", "prr", "reproducible"])
def test_all_reduce(gpus, algorithm):
    given = [torch.arange(100.0).view(10, 10) * (rank + 1) for rank in range(COUNT)]

    def one_rank(communicator):
        tensor, counts = given[communicator.rank].clone(), torch.full((7,), communicator.rank * 3)
        assert communicator.all_reduce(tensor, "sum", algorithm) is None
        work = communicator.all_reduce(counts, "avg", algorithm, async_op=True)
        assert isinstance(work, GpuWork)
        assert work.get_future().wait() is counts
        work.synchronize()
        assert work.is_completed()
        calls_of(communicator).native.wait(work.ticket.native)
        record = communicator.stats()[0]
        assert record["finish_s"] >= record["arrival_s"] > 0
        return tensor, counts

    for tensor, counts in all_ok(gpus.each(one_rank)):
        assert torch.equal(tensor, given[0] * 6)
        assert counts.tolist() == [3] * 7


def test_every_other_collective(gpus):
    def one_rank(communicator):
        rank = communicator.rank
        reduced, told = torch.full((5,), float(rank + 1)), torch.full((4,), rank)
        blocks, scattered = torch.zeros(COUNT * 2), torch.arange(COUNT * 2.0)
        blocks[2 * rank : 2 * rank + 2] = rank + 1
        works = [
            communicator.reduce(reduced, 1, async_op=True),
            communicator.broadcast(told, 2, async_op=True),
            communicator.all_gather(blocks, async_op=True),
            communicator.reduce_scatter(scattered, async_op=True),
        ]
        for work in works:
            work.synchronize()
        return reduced, told, blocks, scattered[2 * rank : 2 * rank + 2]

    for rank, seen in enumerate(all_ok(gpus.each(one_rank))):
        reduced, told, blocks, scattered = seen
        assert reduced.tolist() == [6.0 if rank == 1 else rank + 1.0] * 5
        assert told.tolist() == [2] * 4
        assert blocks.tolist() == [1, 1, 2, 2, 3, 3]
        assert scattered.tolist() == [6.0 * rank, 6.0 * rank + 3.0]


def test_known_arrivals_use_all_lanes_and_others_the_first(gpus):
    def received():
        """By all ranks, in each lane."""
        return [
            sum(gpus.libraries.received([lane], rank) for rank in range(COUNT))
            for lane in gpus.unique_ids
        ]

    def one_rank(communicator, **arrivals):
        tensor = torch.ones(90)
        communicator.all_reduce(tensor, algorithm="slt", segments=6, **arrivals)
        calls_of(communicator).native.wait(
            communicator.all_reduce(torch.ones(1), "sum", "ring", async_op=True).ticket.native
        )
        return tensor

    before = received()
    plain = all_ok(gpus.each(one_rank))
    balanced = received()
    early = all_ok(
        gpus.each(lambda communicator: one_rank(communicator, arrivals_s=[0.0, 0.0, 1.0]))
    )
    late = received()

    assert all(tensor.tolist() == [3.0] * 90 for tensor in plain + early)
    assert len(before) == _core.lanes_for(COUNT) == 3
    assert balanced[0] > before[0]
    assert balanced[1:] == before[1:]
    assert all(b > a for a, b in zip(balanced, late, strict=True))


def test_a_schedule_that_is_given(gpus):
    schedule = pat.schedule("recursive_doubling", COUNT, 4)

    def one_rank(communicator):
        tensor = torch.ones(9)
        communicator.all_reduce(tensor, schedule=schedule, async_op=True).synchronize()
        return tensor

    for tensor in all_ok(gpus.each(one_rank)):
        assert tensor.tolist() == [COUNT] * 9


def test_calls_that_differ_are_refused_on_all_ranks(gpus):
    """Of the same size in bytes: NCCL alone would have made a sum of it."""

    def one_rank(communicator):
        dtype = torch.int32 if communicator.rank == 1 else torch.float32
        tensor = torch.ones(30, dtype=dtype)
        work = communicator.all_reduce(tensor, algorithm="ring", async_op=True)
        with pytest.raises(RuntimeError, match="MismatchError: collective 0 differs"):
            work.get_future().wait()
        work.wait()

    told = raised(gpus.each(one_rank), pat.MismatchError)

    for text in told:
        assert "rank 1 called 30 elements of int32" in text
        assert "30 elements of float32, sum, ring with 3 segments, carried by streams" in text


def test_a_rank_that_uses_the_processor_instead_is_told(gpus):
    def one_rank(communicator):
        if communicator.rank == 2:
            communicator.session.gpus._made.clear()
        communicator.all_reduce(torch.ones(30), algorithm="ring")

    kept = [communicator.session.gpus.of(CPU) for communicator in gpus.communicators]
    told = raised(gpus.each(one_rank), pat.MismatchError)
    gpus.communicators[2].session.gpus._made[CPU] = kept[2]

    assert all("carried by streams" in text for text in told)


def test_a_silent_rank_is_named_by_the_deadline(gpus):
    def one_rank(communicator):
        if communicator.rank == 1:
            return
        start_s = time.monotonic()
        work = communicator.all_reduce(torch.ones(30), async_op=True, timeout_s=0.3)
        try:
            work.synchronize()
        finally:
            assert 0.3 <= time.monotonic() - start_s < 5

    outcomes = gpus.each(one_rank)

    told = raised([outcomes[0], outcomes[2]], pat.TransportTimeout)
    assert all("rank 1 had not called it" in text for text in told)
    assert outcomes[0].rank == outcomes[2].rank == 1


def test_a_rank_with_nothing_in_flight_gives_nccl_up_with_the_others(gpus):
    """The others' end waits for its own where they share a machine."""
    work = gpus.communicators[0].all_reduce(torch.ones(30), async_op=True, timeout_s=0.3)
    with pytest.raises(pat.TransportTimeout):
        work.synchronize()

    until_s = time.monotonic() + 10
    lanes, of = len(gpus.unique_ids), gpus.libraries.aborted
    while [of(gpus.unique_ids, rank) for rank in range(COUNT)] != [lanes] * COUNT:
        assert time.monotonic() < until_s, "some rank still has its communicators"
        time.sleep(0.01)


def test_a_gpu_that_hangs_is_named_on_all_ranks(gpus):
    """Every host has called; one GPU never gets to its contribution."""
    stream = gpus.libraries.new_stream()
    gpus.libraries.sleep(stream, 800)

    def one_rank(communicator):
        tensor = torch.ones(30)
        calls = calls_of(communicator).native
        call = communicator.session.settle(tensor, Arguments("sum", "ring"))
        behind = stream if communicator.rank == 2 else 0
        ticket = calls.submit(tensor.data_ptr(), call, behind, 0.3)
        calls.wait(ticket)

    told = raised(gpus.each(one_rank), pat.TransportTimeout)
    gpus.libraries.end_stream(stream)

    assert len(set(told)) == 1
    assert "rank 2's own contribution has not come" in told[0]


def test_what_nccl_finds_on_one_rank_ends_all(gpus):
    def one_rank(communicator):
        first = communicator.all_reduce(torch.ones(30), timeout_s=30, async_op=True)
        first.synchronize()
        if communicator.rank == 1:
            gpus.libraries.break_connection(gpus.unique_ids[1], 1)
        if communicator.rank != 2:  # so that nobody's result can come
            communicator.all_reduce(torch.ones(30), timeout_s=30, async_op=True).synchronize()
        while True:
            communicator.session.check_usable()
            time.sleep(0.01)

    told = raised(gpus.each(one_rank), pat.TransportError)

    assert set(told) == {"NCCL: rank 1: messages: remote process exited (fake)"}


def test_abort_ends_what_is_under_way_everywhere(gpus):
    def one_rank(communicator):
        if communicator.rank == 0:
            time.sleep(0.05)
            communicator.session.abort("enough")
            return communicator.all_reduce(torch.ones(3))
        return communicator.all_reduce(torch.ones(3), async_op=True).synchronize()

    told = raised(gpus.each(one_rank), pat.TransportError)

    assert set(told) == {"rank 0 aborted: enough"}


def test_places_that_are_known_too_late_are_refused(gpus):
    def one_rank(communicator):
        with pytest.raises(pat.ScheduleError, match=r"order is known before.*got slt_dynamic"):
            communicator.all_reduce(torch.ones(30), algorithm="slt_dynamic")
        tensor = torch.ones(30)
        communicator.all_reduce(tensor, async_op=True).synchronize()
        return tensor

    assert all(tensor.tolist() == [3.0] * 30 for tensor in all_ok(gpus.each(one_rank)))


def test_many_in_flight_come_in_order_and_leave_nothing(gpus):
    def one_rank(communicator):
        tensors = [torch.full((k + 1,), float(communicator.rank)) for k in range(40)]
        futures = [communicator.all_reduce(t, async_op=True).get_future() for t in tensors]
        torch.futures.wait_all(futures)
        calls = calls_of(communicator)
        memory_bytes = calls.native.memory_bytes
        for _ in range(5):
            works = [communicator.all_reduce(t, async_op=True) for t in tensors]
            works[-1].synchronize()
        assert calls.native.events <= len(tensors) * 16  # of 40 in flight; 200 ran
        assert calls.native.memory_bytes == memory_bytes
        return tensors

    for tensors in all_ok(gpus.each(one_rank)):
        for tensor in tensors:
            assert len(set(tensor.tolist())) == 1
            assert tensor[0] == 3.0 * 3**5


def test_host_and_gpu_tensors_in_turn(gpus):
    def one_rank(communicator):
        made = communicator.session.gpus._made
        calls = made[CPU]
        sums = []
        for k in range(10):
            tensor = torch.full((8,), float(k))
            if k % 2:
                made[CPU] = calls
            else:
                made.clear()
            work = communicator.all_reduce(tensor, async_op=True)
            sums.append((tensor, work))
        made[CPU] = calls
        for _, work in sums:
            work.wait()
            if isinstance(work, GpuWork):
                work.synchronize()
        return [tensor.tolist() for tensor, _ in sums]

    assert all_ok(gpus.each(one_rank)) == [[[3.0 * k] * 8 for k in range(10)]] * COUNT


def test_a_closed_communicator_says_so(libraries):
    gpus = GpuRanks(libraries, 2)
    gpus.close()
    with pytest.raises(pat.TransportError, match="closed"):
        gpus.communicators[0].all_reduce(torch.ones(3))


def test_calls_need_the_streams_that_carry_them():
    engine = pat.Communicator.loopback(1)[0].session.engine
    call = _core.Call(3, pat._core.Dtype.float32, _core.Op.sum, -1, "ring", 1, [], 0.0)
    with pytest.raises(ValueError, match="rank 0: a call carried by streams needs streams"):
        engine.begin(0, call.carried_by("streams"), 1.0)
    with pytest.raises(ValueError, match="expected host, device or streams, got 'pigeon'"):
        call.carried_by("pigeon")


def test_calls_of_the_processor_keep_their_order_among_staged_ones(libraries):
    """A staged contribution reaches the engine when the GPU has it; ranks number calls alike."""
    before = libraries.count()
    gpus = GpuRanks(libraries, 2, carry=stage)

    def one_rank(communicator):
        calls, stream = calls_of(communicator), libraries.new_stream()
        libraries.sleep(stream, 100 * communicator.rank)
        late, early = torch.ones(20), torch.full((30,), 2.0)
        call = communicator.session.settle(late, Arguments("sum", "ring"))
        ticket = calls.native.submit(late.data_ptr(), call, stream, 10.0)
        communicator.session.gpus._made[torch.device("meta")] = communicator.session.gpus._made.pop(
            CPU
        )
        communicator.all_reduce(early)  # on the processor
        calls.native.wait(ticket)
        communicator.session.gpus._made[CPU] = communicator.session.gpus._made.pop(
            torch.device("meta")
        )
        libraries.end_stream(stream)
        return late.tolist(), early.tolist()

    assert all_ok(gpus.each(one_rank)) == [([2.0] * 20, [4.0] * 30)] * 2
    gpus.close()
    assert libraries.count() == before
