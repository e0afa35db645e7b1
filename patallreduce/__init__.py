"""Arrival-aware and reproducible all-reduce for PyTorch DistributedDataParallel."""

from importlib.metadata import version as _version

from patallreduce import distributions, hooks, patterns, statistics
from patallreduce._core import (
    CudaError,
    MismatchError,
    PeerLostError,
    Schedule,
    ScheduleError,
    Step,
    TransportError,
    TransportTimeout,
)
from patallreduce.communicator.calibration import calibrate
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.work import Work
from patallreduce.hooks import register
from patallreduce.leaves.fingerprint import fingerprint
from patallreduce.leaves.sampler import LeafSampler
from patallreduce.pricing.link import Link
from patallreduce.pricing.lower_bound import Bound, lower_bound
from patallreduce.pricing.models import LogGP, PLogP
from patallreduce.pricing.networks import Network
from patallreduce.pricing.schedules import algorithms, schedule, verify
from patallreduce.pricing.simulation import PathStep, Result, simulate, simulate_algorithm
from patallreduce.records.files import load_iterations, save_iterations
from patallreduce.records.stragglers import straggler_report
from patallreduce.records.trace import write_trace

__all__ = [
    "Bound",
    "Communicator",
    "CudaError",
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

__version__ = _version("patallreduce")
