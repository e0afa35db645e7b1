"""Ranges in torch.profiler: one per bucket, from its hook to its average."""

import torch
from torch.autograd.profiler import record_function

from patallreduce import _core
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.gpu_calls import GpuTicket


def submit_in_profile(
    communicator: Communicator, tensor: torch.Tensor, call: _core.Call, bucket: int
) -> tuple[_core.Ticket | GpuTicket, torch.futures.Future[torch.Tensor]]:
    """As `Communicator.submit`, with a range if a profiler runs.

    Its name is "patallreduce::slt bucket=3"; "patallreduce::planned bucket=3" on the ranks that
    come before the plan does.
    """
    if not torch.autograd.profiler._is_profiler_enabled:
        return communicator.submit(tensor, call)
    algorithm = communicator.algorithm_now(call) or "planned"
    span = record_function(f"patallreduce::{algorithm} bucket={bucket}")
    span.__enter__()
    ticket, future = communicator.submit(tensor, call)
    return ticket, span._call_end_callbacks_on_future(future)
