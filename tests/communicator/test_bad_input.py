"""Odd groups and tensors, use after close and in a forked child; mistakes: test_mistakes.py."""

import contextlib
import os
import time

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from tests.threads import on_threads


@pytest.fixture(name="pair")
def pair_fixture():
    communicators = pat.Communicator.loopback(2, timeout_s=10)
    yield communicators
    on_threads(communicators, pat.Communicator.close)


def assert_works(communicators):
    tensors = [torch.ones(5) for _ in communicators]
    on_threads(communicators, lambda c: c.all_reduce(tensors[c.rank]))
    assert all(tensor.eq(len(communicators)).all() for tensor in tensors)


def not_a_member():
    group = dist.new_group([0])
    if dist.get_rank() == 1:
        return
    with pat.Communicator(group) as alone:
        tensor = torch.arange(5.0)
        for algorithm in ("auto", "ring", "slt", "prr"):
            for op in ("sum", "avg", "min", "max", "prod"):
                alone.all_reduce(tensor, op, algorithm)
                assert torch.equal(tensor, torch.arange(5.0))
        assert alone.link.bytes_per_s > 0


def test_group_of_one_and_of_others(processes):
    processes.run(2, not_a_member)


def test_shapes_are_kept_and_requires_grad_is_no_obstacle(pair):
    tensors = [torch.ones(2, 0, 3), torch.ones(2, 0, 3)]
    on_threads(pair, lambda c: c.all_reduce(tensors[c.rank]))
    for shape in [(), (1,), (2, 3, 4)]:
        tensors = [torch.ones(shape, requires_grad=True) for _ in pair]
        on_threads(pair, lambda c, tensors=tensors: c.all_reduce(tensors[c.rank]))
        assert all(torch.equal(tensor, torch.full(shape, 2.0)) for tensor in tensors)


def test_closing_twice_and_using_after():
    communicators = pat.Communicator.loopback(2, timeout_s=10)
    assert_works(communicators)
    for _ in range(2):
        on_threads(communicators, pat.Communicator.close)
    for communicator in communicators:
        assert not communicator.usable
        with pytest.raises(pat.TransportError, match="closed"):
            communicator.all_reduce(torch.ones(1))
        with pytest.raises(pat.TransportError, match="closed"):
            communicator.all_reduce(torch.ones(1), async_op=True)


def in_a_forked_child():
    with pat.Communicator(timeout_s=10) as communicator:
        communicator.all_reduce(torch.ones(3))
        time.sleep(0.3 * communicator.rank)  # rank 0 forks while its call is pending
        work = communicator.all_reduce(torch.ones(3), async_op=True)
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                assert not communicator.usable
                communicator.close()  # allowed, and nothing happens
                for use in (
                    lambda: communicator.all_reduce(torch.ones(3)),
                    lambda: communicator.tree_sum(torch.ones(3)),
                    lambda: communicator.edge(0.5),
                    lambda: communicator.session.abort("in the child"),
                    work.wait,
                    work.get_future,
                ):
                    with pytest.raises(pat.TransportError, match="forked child"):
                        use()
                del communicator, work
                code = 0
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        work.wait()
        for _ in range(10):
            tensor = torch.ones(1000)
            communicator.all_reduce(tensor)
            assert tensor.eq(communicator.ranks).all()


def test_forked_child(processes):
    processes.run(2, in_a_forked_child)


def test_unknown_environment_variable_is_warned_about(monkeypatch):
    monkeypatch.setenv("PATALLREDUCE_TIMEOUT", "5")
    with (
        pytest.warns(UserWarning, match=r"PATALLREDUCE_TIMEOUT; known: .*PATALLREDUCE_TIMEOUT_S"),
        pytest.raises(RuntimeError, match="not initialised"),
    ):
        pat.Communicator()
