"""The communication hook: DDP hands over a bucket, and gets a future of its average.

The hook waits only in a state's first bucket, where the ranks meet. It checks the bucket, settles
algorithm and segments (the same on every rank, from the bucket's size, the link and the hints),
gives it to the engine and returns the future. Nothing is remembered of a bucket, so DDP may rebuild
its buckets at any time.

No postponed annotations here: DDP compares the annotations of a hook with the classes themselves.
"""

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from patallreduce.hooks.of_groups import state_of
from patallreduce.hooks.state import State


def allreduce_hook(
    state: State | dist.ProcessGroup | None, bucket: GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket over the ranks: for `ddp_model.register_comm_hook(state, allreduce_hook)`.

    Divides by the size of the group as DDP's default does (multiplies by its inverse before
    summing).

    Works inside torch's `fp16_compress_wrapper` and `bf16_compress_wrapper`. The latter DDP
    refuses, by its name, where torch was built without CUDA (and without XCCL); a function of
    yours that calls it passes.

    Args:
        state: A `State`, or, as torch's own hook takes it, the process group that DDP was given,
            None for the default one: the model then gets a `State(process_group)` in its first
            bucket, which is released with its parameters.
        bucket: (elements,) contiguous gradients, as DDP flattens them.

    Returns:
        A future of the same tensor, averaged; `backward()` raises what it failed with. On a GPU
        it is complete once every rank has called alike; streams that take its value wait for it.

    Raises:
        TypeError: Sparse or complex gradients, or a call by torch.compile's Python reducer.
        ScheduleError, ValueError, TransportError: In the first bucket, what `State.meet` says.
    """
    if not isinstance(bucket, GradBucket):
        raise TypeError(
            f"expected a GradBucket, got {type(bucket).__name__}; set "
            'torch._dynamo.config.optimize_ddp = "ddp_optimizer" (the "python_reducer" of '
            "torch.compile calls hooks with single gradients)"
        )
    if not isinstance(state, State):
        state = state_of(state, bucket)
    return state.submit(bucket)
