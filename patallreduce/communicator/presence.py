"""Whose process has ended, before ranks have met: what the process group's own connections tell.

A rank that has not begun to make its communicator has given nothing yet that could be watched. But
Gloo holds a connection between any two ranks, which the system closes however a process ends, and
then refuses to send over it. A byte that is sent to a rank which lives stays where it is: nobody
receives it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

_SIGNS = ("closed by peer", "reset by peer", "Broken pipe")  # of a closed connection
_TAG = 0x5F70  # of no other message between ranks


class Presence:
    """Looks at the ranks of one process group.

    Args:
        group: The group. Nothing can be told of one without Gloo, of one that connects when it
            first sends, or under ``TORCH_DISTRIBUTED_DEBUG=DETAIL``, which compares how many
            messages each rank has sent.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._rank = group.rank()
        self._gloo = _gloo_of(group)
        self._byte = torch.zeros(1, dtype=torch.uint8)

    def ended(self, ranks: Iterable[int]) -> int | None:
        """The first of these ranks that has ended, or destroyed its group. Sends each a byte."""
        if self._gloo is None:
            return None
        for rank in ranks:
            try:
                if rank != self._rank:
                    self._gloo.send([self._byte], rank, _TAG)
            except RuntimeError as error:
                if any(sign in str(error) for sign in _SIGNS):
                    return rank
        return None


def _gloo_of(group: dist.ProcessGroup) -> Any:
    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError:  # it has none for tensors of the CPU
        return None
    is_gloo = dist.is_gloo_available() and type(backend) is dist.ProcessGroupGloo
    return backend if is_gloo and os.environ.get("TORCH_GLOO_LAZY_INIT", "0") == "0" else None
