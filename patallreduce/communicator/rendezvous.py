"""How ranks find each other: small values exchanged through the process group's store."""

from __future__ import annotations

import datetime
import json
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from patallreduce import _core


class Rendezvous:
    """One communicator's corner of its process group's store.

    Args:
        group: The process group; None for the default one, which must be initialised.
        timeout_s: How long to wait for any one rank.
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout_s: float) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "torch.distributed is not initialised: call "
                'torch.distributed.init_process_group("gloo") first'
            )
        resolved = group if group is not None else dist.group.WORLD
        assert resolved is not None
        if dist.get_rank(resolved) < 0:
            raise ValueError("this rank is not a member of the process group given")
        self.rank = dist.get_rank(resolved)
        self.ranks = dist.get_world_size(resolved)
        self.timeout_s = timeout_s
        store = dist.distributed_c10d._world.pg_map[resolved][1]
        # All ranks of a group make their communicators in the same order, so counting numbers them
        # alike. The store counts: a process may have seen groups of this name that others have not.
        number = store.add(f"patallreduce/made/{self.rank}", 1)
        self._store = PrefixStore(f"patallreduce/{number}", store)

    def share(self, key: str, value: bytes) -> list[bytes]:
        """Give `value`, get every rank's, in rank order.

        Raises:
            TransportTimeout: a rank gave nothing within `timeout_s`; it is named.
        """
        self._set(f"{key}/{self.rank}", value)
        return [self._get(f"{key}/{rank}", rank) for rank in range(self.ranks)]

    def share_json(self, key: str, value: Any) -> list[Any]:
        """As `share`, for what JSON can say."""
        return [json.loads(text) for text in self.share(key, json.dumps(value).encode())]

    def from_rank_0(self, key: str, value: bytes) -> bytes:
        """The value that rank 0 gives."""
        if self.rank == 0:
            self._set(key, value)
        return self._get(key, 0)

    def _set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)  # type: ignore[arg-type]  # torch's stub knows str only

    def _get(self, key: str, rank: int) -> bytes:
        try:
            self._store.wait([key], datetime.timedelta(seconds=self.timeout_s))
        except dist.DistNetworkError:
            raise
        except RuntimeError as error:  # DistStoreError; of a FileStore a plain one
            timeout = _core.TransportTimeout(
                f"rank {self.rank}: rank {rank} made no communicator within {self.timeout_s} s"
            )
            timeout.rank = rank
            raise timeout from error
        return self._store.get(key)
