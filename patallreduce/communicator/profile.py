"""Ranges in torch.profiler: one per bucket, from its hook to its average."""

from torch.autograd.profiler import record_function


def bucket_range(algorithm: str, bucket: int) -> record_function:
    """Begin a range named "patallreduce::slt bucket=3"; its end is the bucket's future's.

    It is "patallreduce::planned bucket=3" on the ranks that come before the plan does, and so do
    not know the algorithm.
    """
    span = record_function(f"patallreduce::{algorithm or 'planned'} bucket={bucket}")
    span.__enter__()
    return span
