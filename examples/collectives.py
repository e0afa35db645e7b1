"""Sums over the ranks that let the process end in peace."""

from collections import deque

import torch.distributed as dist
from torch import Tensor

# Whoever drops a Work last releases its tensor. Gloo's own thread, coming to it while Python is
# ending, would abort the process (pytorch#190489): so the last few live until Python drops them.
_kept: deque[dist.Work] = deque(maxlen=4)


def sum_over_ranks(tensor: Tensor) -> None:
    """Sum `tensor` over all ranks, in place. Every rank must call."""
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    _kept.append(work)
