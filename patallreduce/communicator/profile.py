"""Ranges in torch.profiler: one per bucket, from its hook to its average."""

from collections.abc import Callable

import torch
from torch.autograd.profiler import record_function

from patallreduce.communicator.gpu_calls import GpuWork
from patallreduce.communicator.work import Work


def in_profile(
    start: Callable[[], Work | GpuWork], bucket: int, algorithm: Callable[[], str]
) -> Work | GpuWork:
    """Start a collective, with a range if it is a bucket's and a profiler runs.

    Its name is "patallreduce::slt bucket=3"; "patallreduce::planned bucket=3" on the ranks that
    come before the plan does.

    Args:
        start: Starts it.
        bucket: Its index; below 0: it is none.
        algorithm: What would run if it started now; empty: its plan is not here yet.
    """
    if bucket < 0 or not torch.autograd.profiler._is_profiler_enabled:
        return start()
    span = record_function(f"patallreduce::{algorithm() or 'planned'} bucket={bucket}")
    span.__enter__()
    work = start()
    work.future = span._call_end_callbacks_on_future(work.get_future())
    return work
