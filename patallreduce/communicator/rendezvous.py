"""How ranks find each other: small values exchanged through the process group's store.

All ranks make their communicators in the same order, but an attempt may fail on some of them: a
rank that came too late finds what the others left there. So rank 0 numbers the attempts, and the
others join its newest one, also while they wait in one that rank 0 has given up.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from patallreduce import _core
from patallreduce.arguments import refused
from patallreduce.communicator.presence import Presence
from patallreduce.communicator.secret import Secret

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1e-3, 0.05  # between two looks into the store
_CORRECTED_S = 1.0  # in which a rank may call again with other arguments
_ENDED = "patallreduce/ended"  # the rank that was first found to have ended
_READ_S = 1.0  # for which who is not there to read it is waited for
_LOOK_S = 0.5  # between two looks for ranks that have ended: each leaves a byte behind
_MISTAKE = "patallreduce/mistake/{}"
_NONE = b"none"  # a key is not deleted that others may be about to get: they would wait for it
_OPEN = "patallreduce/open/{}"  # an attempt that nobody has given up
_MISSED = "patallreduce/missed/{}"  # the rank for whose sake an attempt was first given up


class SupersededError(Exception):
    """Rank 0 has begun another attempt."""


@contextlib.contextmanager
def mistakes_told(group: dist.ProcessGroup | None) -> Iterator[None]:
    """Tell those who wait for this rank why it does not come: the error raised in here."""
    try:
        yield
    except _core.TransportError:  # they know
        raise
    except Exception as error:
        with contextlib.suppress(Exception):  # no group, or no store any more: nobody to tell
            resolved: Any = group if group is not None else dist.group.WORLD
            key = _MISTAKE.format(dist.get_rank(resolved))
            _store_of(resolved).set(key, f"{type(error).__name__}: {error}")
        raise


def _store_of(group: Any) -> Store:
    return dist.distributed_c10d._world.pg_map[group][1]


class Rendezvous:
    """One communicator's corner of its process group's store.

    Args:
        group: The process group; None for the default one, which must be initialised.
        timeout_s: How long to wait for all ranks, twice as long where rank 0 begins anew meanwhile;
            and afterwards for any one value.
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout_s: float) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "torch.distributed is not initialised: call "
                'torch.distributed.init_process_group("gloo") first'
            )
        resolved: Any = group if group is not None else dist.group.WORLD
        if resolved is dist.GroupMember.NON_GROUP_MEMBER:  # what new_group gives to the others
            raise ValueError(
                f"process_group: expected one that this rank is a member of, got one without "
                f"rank {dist.get_rank()}"
            )
        if not isinstance(resolved, dist.ProcessGroup):
            expected = "a ProcessGroup of torch.distributed, or None"
            raise TypeError(refused("process_group", expected, resolved, dist.get_rank()))
        self.rank = dist.get_rank(resolved)
        self.ranks = dist.get_world_size(resolved)
        self.timeout_s = timeout_s
        self.secret = Secret.of_environment()
        self._until_s: float | None = time.monotonic() + timeout_s  # None: all ranks have met
        self._longest_s = self._until_s + timeout_s
        # The store counts: a process may have seen groups of this name that others have not.
        self._group_store = _store_of(resolved)
        self._presence = Presence(resolved)
        self._look_s = time.monotonic() + _LOOK_S
        self._forget_mistake()
        self._attempt = 0
        self._given: list[str] = []
        self.join()

    def join(self) -> None:
        """Take part in rank 0's newest attempt; on rank 0: begin one.

        Raises:
            TransportTimeout: rank 0 has not begun one that this rank was not part of.
            PeerLostError: a rank's process has ended.
        """
        joined = self._group_store.add(f"patallreduce/joined/{self.rank}", 0)
        self._attempt = 0
        if self.rank == 0:
            self._attempt = self._group_store.add("patallreduce/begun", 1)
            self._group_store.set(_OPEN.format(self._attempt), "1")
        else:
            self._attempt = self._wait(0, lambda: self._open_after(joined))
        self._group_store.add(f"patallreduce/joined/{self.rank}", self._attempt - joined)
        self._store = PrefixStore(f"patallreduce/{self._attempt}", self._group_store)
        # No rank gives an attempt up before rank 0 does.
        self._until_s = min(time.monotonic() + self.timeout_s, self._longest_s)

    def met(self) -> None:
        """All ranks have what they need: forget it."""
        self._until_s = None
        with contextlib.suppress(RuntimeError):  # a store that deletes nothing
            for key in self._given:
                self._store.delete_key(key)
            if self.rank == 0:
                self._group_store.delete_key(_OPEN.format(self._attempt))
        self._given.clear()

    def share(self, key: str, value: bytes) -> list[bytes]:
        """Give `value`, get every rank's, in rank order.

        Raises:
            TransportTimeout: a rank gave nothing in time; it is named.
            PeerLostError: a rank's process has ended; it is named.
            SupersededError: rank 0 has begun anew meanwhile.
            TransportError: a value was not sealed with this rank's secret.
        """
        self._set(f"{key}/{self.rank}", value)
        return [
            value if rank == self.rank else self._get(f"{key}/{rank}", rank)
            for rank in range(self.ranks)
        ]

    def share_json(self, key: str, value: Any) -> Iterator[Any]:
        """As `share`, for what JSON can say, each as soon as it is there."""
        self._set(f"{key}/{self.rank}", json.dumps(value).encode())
        return (json.loads(self._get(f"{key}/{rank}", rank)) for rank in range(self.ranks))

    def from_rank_0(self, key: str, value: bytes) -> bytes:
        """The value that rank 0 gives."""
        if self.rank == 0:
            self._set(key, value)
        return self._get(key, 0)

    def left_s(self) -> float:
        """Until all ranks must have met; afterwards, how long to wait for any one value."""
        if self._until_s is None:
            return self.timeout_s
        return max(self._until_s - time.monotonic(), 1e-3)

    def _newest(self) -> int:
        return int(self._group_store.add("patallreduce/begun", 0))

    def _set(self, key: str, value: bytes) -> None:
        self._given.append(key)
        sealed = self.secret.seal(self._name(key), value)
        self._store.set(key, sealed)  # type: ignore[arg-type]  # torch's stub knows str only

    def _get(self, key: str, rank: int) -> bytes:
        sealed = self._wait(rank, lambda: _value(self._store, key))
        return self.secret.open(self._name(key), sealed, self.rank, rank)

    def _name(self, key: str) -> str:
        return f"{self._attempt}/{key}"

    def _open_after(self, attempt: int) -> int | None:
        newest = self._newest()
        is_open = newest > attempt and self._group_store.check([_OPEN.format(newest)])
        return newest if is_open else None

    def _wait(self, rank: int, look: Callable[[], T | None]) -> T:
        """What `look` gives, once that rank has done its part."""
        until_s = time.monotonic() + self.left_s()
        mistaken_until_s = math.inf
        pause_s = _FIRST_PAUSE_S
        while (found := look()) is None:  # waiting for a part of the time would make c10d warn
            if self._until_s is not None and 0 < self._attempt < self._newest():
                if (found := look()) is not None:  # given before rank 0 began anew
                    return found
                raise SupersededError
            self._check_ended(range(rank, self.ranks))
            now_s = time.monotonic()
            mistake = self._mistake(rank)
            mistaken_until_s = min(mistaken_until_s, now_s + _CORRECTED_S) if mistake else math.inf
            if now_s > min(until_s, mistaken_until_s):
                raise self._given_up(rank, mistake)
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
        return found

    def _check_ended(self, ranks: Iterable[int]) -> None:
        """Raise what all others raise if one of these, who are waited for, has ended."""
        if self._until_s is None:  # the engine is connected: it notices, and tells all
            return
        if time.monotonic() > self._look_s:
            self._look_s = time.monotonic() + _LOOK_S
            if (found := self._presence.ended(ranks)) is not None:
                if missed := _value(self._group_store, _MISSED.format(self._attempt)):
                    raise self._given_up(int(missed), self._mistake(int(missed)))
                self._group_store.compare_set(_ENDED, "", str(found))
        if told := _value(self._group_store, _ENDED):
            with contextlib.suppress(RuntimeError):  # the store has ended too: all others have read
                self._wait_for_readers(int(told))
            raise _ended(int(told))

    def _wait_for_readers(self, ended: int) -> None:
        """This rank may have the store, and end now: those who wait have to read who ended."""
        self._group_store.set(f"{_ENDED}/{self.rank}", "read")
        others = {*range(self.ranks)} - {ended, self.rank}
        read = [f"{_ENDED}/{rank}" for rank in others]
        until_s = time.monotonic() + _READ_S
        while not self._group_store.check(read) and time.monotonic() < until_s:
            time.sleep(_FIRST_PAUSE_S)

    def _mistake(self, rank: int) -> bytes | None:
        """What kept that rank from making a communicator, and was not made good since."""
        mistake = _value(self._group_store, _MISTAKE.format(rank))
        return None if mistake == _NONE else mistake

    def _forget_mistake(self) -> None:
        if self._mistake(self.rank):
            self._group_store.set(_MISTAKE.format(self.rank), _NONE.decode())

    def _given_up(self, rank: int, mistake: bytes | None) -> _core.TransportError:
        """The error. Who comes later waits for another attempt: in this one values are old."""
        with contextlib.suppress(RuntimeError):
            # First, lest others find that this rank has ended, and not why.
            self._group_store.compare_set(_MISSED.format(self._attempt), "", str(rank))
            self._group_store.delete_key(_OPEN.format(self._attempt))
        error: _core.TransportError
        if mistake:
            error = _core.TransportError(
                f"rank {rank} made no communicator: {mistake.decode(errors='replace')}"
            )
        else:
            error = _core.TransportTimeout(
                f"rank {rank} made no communicator within {self.timeout_s} s"
            )
        error.rank = rank
        return error


def store_gone(group: dist.ProcessGroup | None, error: Exception) -> _core.TransportError:
    """What to raise where the group's store does not answer: its process has ended."""
    resolved: Any = group if group is not None else dist.group.WORLD
    ended = Presence(resolved).ended(range(dist.get_world_size(resolved)))
    time.sleep(2 * _LONGEST_PAUSE_S)  # lest the others find that this rank has ended
    return _core.TransportError(f"the store is gone: {error}") if ended is None else _ended(ended)


def _ended(rank: int) -> _core.PeerLostError:
    error = _core.PeerLostError(
        f"rank {rank} ended, or destroyed its process group, before all ranks had met"
    )
    error.rank = rank
    return error


def _value(store: Store, key: str) -> bytes | None:
    return store.get(key) if store.check([key]) else None
