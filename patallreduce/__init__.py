"""Arrival-aware and reproducible all-reduce for PyTorch DistributedDataParallel."""

from patallreduce import distributions, hooks, patterns, statistics
from patallreduce._core import (
    MismatchError,
    PeerLostError,
    Schedule,
    ScheduleError,
    Step,
    TransportError,
    TransportTimeout,
)
from patallreduce.communicator import Communicator
from patallreduce.fingerprint import fingerprint
from patallreduce.hooks import register
from patallreduce.iterations import load_iterations, save_iterations
from patallreduce.leaf_sampler import LeafSampler
from patallreduce.link import Link
from patallreduce.schedules import algorithms, schedule, verify
from patallreduce.simulation import Result, simulate
from patallreduce.stragglers import straggler_report
from patallreduce.trace import write_trace
from patallreduce.work import Work

__all__ = [
    "Communicator",
    "LeafSampler",
    "Link",
    "MismatchError",
    "PeerLostError",
    "Result",
    "Schedule",
    "ScheduleError",
    "Step",
    "TransportError",
    "TransportTimeout",
    "Work",
    "algorithms",
    "distributions",
    "fingerprint",
    "hooks",
    "load_iterations",
    "patterns",
    "register",
    "save_iterations",
    "schedule",
    "simulate",
    "statistics",
    "straggler_report",
    "verify",
    "write_trace",
]
