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
from patallreduce.calibration import calibrate
from patallreduce.communicator import Communicator
from patallreduce.fingerprint import fingerprint
from patallreduce.hooks import register
from patallreduce.iterations import load_iterations, save_iterations
from patallreduce.leaf_sampler import LeafSampler
from patallreduce.link import Link
from patallreduce.lower_bound import Bound, lower_bound
from patallreduce.networks import LogGP, Network, PLogP
from patallreduce.schedules import algorithms, schedule, verify
from patallreduce.simulation import PathStep, Result, simulate, simulate_algorithm
from patallreduce.stragglers import straggler_report
from patallreduce.trace import write_trace
from patallreduce.work import Work

__all__ = [
    "Bound",
    "Communicator",
    "LeafSampler",
    "Link",
    "LogGP",
    "MismatchError",
    "Network",
    "PLogP",
    "PathStep",
    "PeerLostError",
    "Result",
    "Schedule",
    "ScheduleError",
    "Step",
    "TransportError",
    "TransportTimeout",
    "Work",
    "algorithms",
    "calibrate",
    "distributions",
    "fingerprint",
    "hooks",
    "load_iterations",
    "lower_bound",
    "patterns",
    "register",
    "save_iterations",
    "schedule",
    "simulate",
    "simulate_algorithm",
    "statistics",
    "straggler_report",
    "verify",
    "write_trace",
]
