"""A rank whose process ends before ranks have met: the others are told, by the group's sockets."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.communicator import rendezvous
from patallreduce.communicator.presence import Presence

from ..processes import LINK, RankFailure


@contextlib.contextmanager
def quiet():
    """Without what is written to this process's standard error."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def destroy_group():
    dist.destroy_process_group()
    time.sleep(1.5)


ENDS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exits": lambda: os._exit(3),
    "destroys": destroy_group,
}


def meets_without(victim, how):
    if dist.get_rank() == victim:
        time.sleep(0.7)  # the others wait for it, and have looked once
        ENDS[how]()
    pat.Communicator(timeout_s=20, link=LINK)


def meets_without_the_store(victim):
    """As without a launcher, which would have the store: here rank 0 has it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True) if rank == 0 else None
    port = [store.port if store else None]
    dist.broadcast_object_list(port, 0)
    dist.destroy_process_group()
    store = store or dist.TCPStore("127.0.0.1", port[0])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    dist.barrier()
    with quiet():  # torch writes a stack trace for every call of a store that is gone
        meets_without(victim, "exits")


class HeldUp(Presence):
    """Sleeps when it first looks, until the others have looked twice."""

    held_up = False

    def ended(self, ranks):
        if self.held_up:
            return super().ended(ranks)
        self.held_up = True
        time.sleep(1.0)
        return None


def one_is_held_up_and_the_store_ends(victim, held_up):
    rank = dist.get_rank()
    if rank == held_up:
        rendezvous.Presence = HeldUp
    try:
        meets_without_the_store(victim)
    finally:
        rendezvous.Presence = Presence
        if rank == 0:
            os._exit(4)


def assert_all_name(outcomes, victim, but=()):
    errors = [outcomes[rank].error for rank in range(len(outcomes)) if rank not in (victim, *but)]
    assert {type(error) for error in errors} == {pat.PeerLostError}
    assert {error.rank for error in errors} == {victim}
    assert len({str(error) for error in errors}) == 1
    assert f"rank {victim} ended" in str(errors[0])


@pytest.mark.parametrize(("victim", "how"), [(0, "killed"), (1, "exits"), (2, "destroys")])
def test_a_rank_that_ends_before_ranks_met_is_named(processes, victim, how):
    assert_all_name(processes.outcomes(4, meets_without, victim, how), victim)


@pytest.mark.parametrize("victim", [0, 2])
def test_it_is_named_where_the_store_ends_too(processes, victim):
    assert_all_name(processes.outcomes(4, meets_without_the_store, victim), victim)


def test_it_is_named_by_a_rank_that_was_held_up(processes):
    outcomes = processes.outcomes(4, one_is_held_up_and_the_store_ends, 2, 1)
    assert_all_name(outcomes, 2, but=[0])  # which could not say what it saw


def test_the_only_other_rank_is_told(processes):
    assert_all_name(processes.outcomes(2, meets_without_the_store, 1), 1)


def uses_its_group_after_a_late_rank(late):
    rank = dist.get_rank()
    if rank == late:
        time.sleep(1.3)
    with pat.Communicator(timeout_s=20, link=LINK):
        pass
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    assert tensor.eq(3).all()
    if rank == 0:
        received = torch.zeros(2)
        assert {dist.recv(received), dist.recv(received)} == {1, 2}  # from whom it may be
        assert received.eq(7).all()
    else:
        dist.send(torch.full((2,), 7.0), 0)
    dist.barrier()


@pytest.mark.parametrize("late", [0, 2])
def test_looking_leaves_the_process_group_as_it_was(processes, late):
    processes.run(3, uses_its_group_after_a_late_rank, late)


def looks_where_messages_are_counted():
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        group = dist.new_group(backend="gloo")
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)
    presence = Presence(group)
    for _ in range(dist.get_rank()):
        assert presence.ended(range(3)) is None
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    assert tensor.eq(3).all()


def test_nothing_is_sent_where_torch_compares_how_much_each_rank_has_sent(processes):
    processes.run(3, looks_where_messages_are_counted)


def looks_after_its_end(value):
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(3)
    time.sleep(0.5)
    os.environ["TORCH_GLOO_LAZY_INIT"] = value
    try:
        return Presence(dist.group.WORLD).ended([0, 1])
    finally:
        del os.environ["TORCH_GLOO_LAZY_INIT"]


@pytest.mark.parametrize(("value", "seen"), [("0", 1), ("1", None)])
def test_a_send_is_not_tried_where_it_would_have_to_connect_first(processes, value, seen):
    outcome, ended = processes.outcomes(2, looks_after_its_end, value)
    assert outcome == seen
    assert isinstance(ended, RankFailure)
