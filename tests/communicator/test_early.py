"""Early in, early out: no rank waits for more than it must."""

import time

import pytest
import torch

import patallreduce as pat
from tests.processes import LINK
from tests.threads import on_threads

COUNT = 1_000_000
LATE = {"algorithm": "slt", "arrivals_s": [0.0, 0.0, 0.0, 1.0], "segments": 64}


def reduce_and_overwrite(communicator, rounds):
    """Each result is copied, then the tensor is spoilt at once; returns whether all were right."""
    tensor = torch.empty(COUNT)
    right = True
    for i in range(rounds):
        tensor.fill_(communicator.rank + i)
        if communicator.rank == communicator.ranks - 1:
            time.sleep(0.01)
        communicator.all_reduce(tensor, **LATE)
        result = float(tensor[0]), bool(tensor.eq(tensor[0]).all())
        tensor.fill_(float("nan"))
        right = right and result == (4.0 * i + 6, True)
    return right


def test_the_tensor_may_be_overwritten_as_soon_as_the_call_returns():
    communicators = pat.Communicator.loopback(4, timeout_s=20, link=LINK)
    assert on_threads(communicators, reduce_and_overwrite, 20) == [True] * 4
    on_threads(communicators, pat.Communicator.close)  # what was still sending has drained
    for communicator in communicators:
        assert all(r["drained_s"] >= r["finish_s"] for r in communicator.stats())


def overwrite_over_ucx(rounds):
    with pat.Communicator(timeout_s=20, link=LINK) as communicator:
        return reduce_and_overwrite(communicator, rounds)


def test_the_tensor_may_be_overwritten_over_ucx(processes):
    assert processes.run(4, overwrite_over_ucx, 10) == [True] * 4


def test_the_last_rank_is_done_while_it_still_sends():
    """It has the result as soon as it has added; the others' copies leave from private memory."""
    communicators = pat.Communicator.loopback(4, timeout_s=20, link=LINK)
    tensors = [torch.full((COUNT,), float(rank)) for rank in range(4)]
    early = [c.all_reduce(tensors[c.rank], async_op=True, **LATE) for c in communicators[:3]]
    late = communicators[3]
    late.all_reduce(tensors[3], **LATE)
    tensors[3].fill_(float("nan"))
    for work in early:
        work.wait()
    assert all(tensor.eq(6).all() for tensor in tensors[:3])
    on_threads(communicators, pat.Communicator.close)
    (record,) = late.stats()
    assert record["finish_s"] < record["drained_s"]


def wait_until(condition, timeout_s=10.0):
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


@pytest.mark.parametrize("algorithm", ["slt", "prr"])
def test_the_sum_of_the_others_is_there_before_a_late_rank_comes(algorithm):
    """Into private memory: with slt the whole message, with prr what its pre-steps bring."""
    communicators = pat.Communicator.loopback(4, timeout_s=20, link=LINK)
    late = communicators[3]
    plan = LATE | {"algorithm": algorithm}
    tensors = [torch.full((COUNT,), float(rank)) for rank in range(4)]
    works = [c.all_reduce(tensors[c.rank], async_op=True, **plan) for c in communicators[:3]]

    message_bytes = COUNT * 4
    least_bytes = message_bytes if algorithm == "slt" else message_bytes // 4
    wait_until(lambda: late.session.engine.scratch_peak_bytes >= least_bytes)
    assert tensors[3].eq(3).all(), "its own memory is untouched until it comes"
    assert not any(work.is_completed() for work in works)

    late.all_reduce(tensors[3], **plan)
    for work in works:
        work.wait()
    assert all(tensor.eq(6).all() for tensor in tensors)
    for communicator in communicators:
        # A segment is received at most twice, into pieces rounded up to powers of two.
        assert communicator.session.engine.scratch_peak_bytes <= 2.2 * message_bytes
    on_threads(communicators, pat.Communicator.close)
