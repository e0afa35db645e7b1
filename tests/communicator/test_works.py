"""What a caller does with an asynchronous collective's handle, or does not."""

import gc
import sys
import threading
import time
import weakref

import pytest
import torch

import patallreduce as pat

COUNT = 100_003


@pytest.fixture
def pair():
    communicators = pat.Communicator.loopback(2, timeout_s=30, monitor=False)
    yield communicators
    for communicator in communicators:
        communicator.close()


def gone_within(reference, limit_s):
    until_s = time.monotonic() + limit_s
    while reference() is not None and time.monotonic() < until_s:
        gc.collect()
        time.sleep(0.005)
    return reference() is None


def completers():
    return [one for one in threading.enumerate() if one.name == "patallreduce-completer"]


def test_a_dropped_work_keeps_its_tensor_until_the_engine_is_done_with_it(pair):
    tensor = torch.ones(COUNT)
    alive = weakref.ref(tensor)
    pair[0].all_reduce(tensor, async_op=True)
    del tensor
    assert not gone_within(alive, 0.2)  # rank 1 has not come
    late = torch.ones(COUNT)
    pair[1].all_reduce(late)
    assert torch.equal(late, torch.full((COUNT,), 2.0))
    assert gone_within(alive, 10.0)


def test_a_dropped_work_of_a_communicator_that_ends_lets_its_tensor_go(pair):
    tensor = torch.ones(COUNT)
    alive = weakref.ref(tensor)
    pair[0].all_reduce(tensor, async_op=True)
    del tensor
    pair[1].session.abort("by the test")
    assert gone_within(alive, 10.0)


def test_futures_complete_before_and_after_the_result_and_waiting_needs_no_thread(pair):
    before = len(completers())
    tensors = [torch.ones(COUNT) for _ in pair]
    works = [c.all_reduce(t, async_op=True) for c, t in zip(pair, tensors, strict=True)]
    for work in works:
        work.wait()
    assert len(completers()) == before
    for work, tensor in zip(works, tensors, strict=True):
        assert work.get_future() is work.get_future()
        assert work.get_future().done()
        assert work.get_future().value() is tensor
    first = pair[0].all_reduce(tensors[0], async_op=True).get_future()
    assert not first.done()
    second = pair[1].all_reduce(tensors[1], async_op=True).get_future()
    assert torch.equal(first.wait(), torch.full((COUNT,), 4.0))
    assert torch.equal(second.wait(), first.value())
    assert len(completers()) > before


def test_threads_that_ask_at_once_get_one_future(pair):
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            tensors = [torch.ones(3) for _ in pair]
            work = pair[0].all_reduce(tensors[0], async_op=True)
            found = []
            threads = [
                threading.Thread(
                    target=lambda work=work, found=found: found.append(work.get_future())
                )
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            pair[1].all_reduce(tensors[1])
            for thread in threads:
                thread.join()
            assert len(set(map(id, found))) == 1
            assert torch.equal(found[0].wait(), torch.full((3,), 2.0))
    finally:
        sys.setswitchinterval(interval_s)


def test_every_future_completes_whenever_it_is_asked_for():
    """Its work may be done before, while or after it is asked for."""
    (communicator,) = pat.Communicator.loopback(1, timeout_s=30, monitor=False)
    tensor = torch.ones(1)
    works = []
    for number in range(20_000):
        work = communicator.all_reduce(tensor, async_op=True)
        works.append(work)
        if number % 3:
            work.get_future()
        if number % 7 == 0:
            works[number // 2].get_future()
    for work in works:
        assert work.get_future().wait() is tensor
    communicator.close()
