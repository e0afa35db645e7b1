"""Arrival-aware and reproducible all-reduce for PyTorch DistributedDataParallel."""

from patallreduce._core import (
    MismatchError,
    PeerLostError,
    Schedule,
    ScheduleError,
    Step,
    TransportError,
    TransportTimeout,
)
from patallreduce.schedules import algorithms, schedule, verify

__all__ = [
    "MismatchError",
    "PeerLostError",
    "Schedule",
    "ScheduleError",
    "Step",
    "TransportError",
    "TransportTimeout",
    "algorithms",
    "schedule",
    "verify",
]
