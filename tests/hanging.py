"""Tests that hang, each before one that passes: test_hangs.py runs them in a pytest of its own."""

import ctypes
import threading
import time

import pytest
import torch.distributed as dist

from patallreduce import Communicator
from tests.threads import on_threads


def gather():
    ranks = [None] * 2
    dist.all_gather_object(ranks, dist.get_rank())
    return ranks


def rank_1_waits():
    if dist.get_rank() == 1:
        threading.Event().wait()


def lock_twice(library):
    """Never returns, not for a signal either."""
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def wait_or_lock_twice(communicator):
    if communicator.rank == 1:
        threading.Event().wait()
    if communicator.rank == 2:
        lock_twice(ctypes.CDLL(None))


@pytest.mark.timeout(60)  # the server of processes imports torch first
def test_processes_are_there(processes):
    assert processes.run(2, gather) == [[0, 1]] * 2


def test_a_process_hangs(processes):
    processes.run(2, rank_1_waits)


def test_processes_go_on(processes):
    assert processes.run(2, gather) == [[0, 1]] * 2


def test_threads_hang():
    on_threads(Communicator.loopback(3), wait_or_lock_twice)


def test_threads_go_on():
    assert on_threads(Communicator.loopback(3), lambda c: c.rank) == [0, 1, 2]


def test_a_test_hangs():
    time.sleep(3600)


def test_tests_go_on():
    pass


def test_native_code_hangs_and_keeps_the_interpreter():
    lock_twice(ctypes.PyDLL(None))


def test_a_new_process_goes_on():
    pass
