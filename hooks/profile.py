"""Ranges in torch.profiler: one per bucket, from its hook to its average."""

import torch
from torch.autograd.profiler import record_function

from patallreduce import _core


def in_profile(
    future: torch.futures.Future[torch.Tensor], ticket: _core.Ticket, bucket: int
) -> torch.futures.Future[torch.Tensor]:
    """Give a bucket its range, if a profiler runs.

    Named "patallreduce bucket=3", since a planned bucket's algorithm may not be known yet; at its
    end, on the completing thread, stands a mark "patallreduce::slt bucket=3".
    """
    if not torch.autograd.profiler._is_profiler_enabled:
        return future
    span = record_function(f"patallreduce bucket={bucket}")
    span.__enter__()

    def mark(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        with record_function(f"patallreduce::{ticket.algorithm} bucket={bucket}"):
            return done.value()

    return span._call_end_callbacks_on_future(future.then(mark))
