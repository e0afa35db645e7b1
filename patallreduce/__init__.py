"""Arrival-aware and reproducible all-reduce for PyTorch DistributedDataParallel."""

from patallreduce._core import (
    MismatchError,
    PeerLostError,
    ScheduleError,
    TransportError,
    TransportTimeout,
)
from patallreduce.communicator import Communicator
from patallreduce.link import Link
from patallreduce.work import Work
