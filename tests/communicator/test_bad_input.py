"""What one rank can get wrong by itself: told at once, and the communicator stays usable."""

import contextlib
import os
import time
import warnings

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


BAD_TENSORS = {
    "transposed": (lambda: torch.ones(3, 4).T, ValueError, r"contiguous.*\(4, 3\).*\(1, 4\)"),
    "every other": (lambda: torch.ones(10)[::2], ValueError, "contiguous"),
    "expanded": (lambda: torch.ones(1).expand(5), ValueError, "contiguous"),
    "negated view": (lambda: torch._neg_view(torch.ones(3)), ValueError, "lazily negated"),
    "sparse": (lambda: torch.eye(3).to_sparse(), TypeError, "got layout torch.sparse_coo"),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), TypeError, "got layout torch.sparse_csr"),
    "complex": (lambda: torch.ones(3, dtype=torch.complex64), TypeError, r"got torch\.complex64"),
    "bool": (lambda: torch.ones(3, dtype=torch.bool), TypeError, "float32, .*got torch.bool"),
    "int16": (lambda: torch.ones(3, dtype=torch.int16), TypeError, r"got torch\.int16"),
    "float8": (lambda: torch.ones(3).to(torch.float8_e5m2), TypeError, "got torch.float8_e5m2"),
    "meta": (
        lambda: torch.ones(3, device="meta"),
        TypeError,
        "CUDA tensor, got device meta",
    ),
    "list": (lambda: [1.0, 2.0], TypeError, "torch.Tensor, got list"),
    "array": (lambda: memoryview(b"12345678"), TypeError, "torch.Tensor, got memoryview"),
    "nothing": (lambda: None, TypeError, "torch.Tensor, got NoneType"),
}


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("name", BAD_TENSORS)
def test_tensors(pair, name, async_op):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch: sparse CSR is in beta
        make, error, match = BAD_TENSORS[name]
        tensor = make()
    with pytest.raises(error, match=rf"{match}.* on rank 1"):
        pair[1].all_reduce(tensor, async_op=async_op)
    assert_works(pair)


BAD_ARGUMENTS = [
    ({"op": "xor"}, ValueError, "sum, avg, min, max, prod, got 'xor'"),
    ({"op": None}, ValueError, "got None"),
    ({"algorithm": "rong"}, pat.ScheduleError, "'rong' on rank 1; known: .*ring"),
    ({"algorithm": 3}, pat.ScheduleError, "unknown algorithm 3 on rank 1"),
    ({"segments": 0}, pat.ScheduleError, r"1 to 5 .*got 0 on rank 1"),
    ({"segments": -1}, pat.ScheduleError, "got -1"),
    ({"segments": 6}, pat.ScheduleError, r"1 to 5 .*got 6"),
    ({"segments": 1.5}, TypeError, None),
    ({"segments": "2"}, TypeError, None),
    ({"arrivals_s": []}, pat.ScheduleError, "expected 2 times.*got 0 on rank 1"),
    ({"arrivals_s": [0.0]}, pat.ScheduleError, "expected 2 times.*got 1"),
    ({"arrivals_s": [0.0] * 3}, pat.ScheduleError, "expected 2 times.*got 3"),
    ({"arrivals_s": [0.0, float("nan")]}, pat.ScheduleError, "got nan for rank 1 on rank 1"),
    ({"arrivals_s": [-0.1, 0.0]}, pat.ScheduleError, r"got -0\.1 for rank 0"),
    ({"arrivals_s": [float("inf"), 0.0]}, pat.ScheduleError, "got inf for rank 0"),
    ({"arrivals_s": ["soon", "late"]}, (TypeError, ValueError), "soon"),
    ({"arrivals_s": 1.0}, TypeError, None),
    ({"algorithm": "prr", "segment_time_s": -1.0}, pat.ScheduleError, "-1"),
    ({"algorithm": "prr", "segment_time_s": float("nan")}, pat.ScheduleError, "nan"),
    ({"timeout_s": 0}, ValueError, "timeout_s.*got 0"),
    ({"timeout_s": -1}, ValueError, "got -1"),
    ({"timeout_s": float("nan")}, ValueError, "got nan"),
]


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize(("arguments", "error", "match"), BAD_ARGUMENTS, ids=str)
def test_arguments(pair, arguments, error, match, async_op):
    with pytest.raises(error, match=match):
        pair[1].all_reduce(torch.ones(5), async_op=async_op, **arguments)
    assert_works(pair)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"transport": "smoke"}, ValueError, "got 'smoke'"),
        ({"transport": "loopback"}, ValueError, "loopback"),
        ({"timeout_s": 0}, ValueError, "timeout_s"),
        ({}, RuntimeError, "torch.distributed is not initialised"),
    ],
)
def test_making_a_communicator(arguments, error, match):
    with pytest.raises(error, match=match):
        pat.Communicator(**arguments)


def not_a_member():
    group = dist.new_group([0])
    if dist.get_rank() == 1:
        with pytest.raises(ValueError, match="not a member"):
            pat.Communicator(group)
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


def test_bad_environment_variable_is_named(monkeypatch):
    monkeypatch.setenv("PATALLREDUCE_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match=r"PATALLREDUCE_TIMEOUT_S: .*'soon'"):
        pat.Communicator.loopback(2)
