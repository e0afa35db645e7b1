"""What PyTorch calls: the communication hook of DistributedDataParallel."""

from patallreduce.hooks.ddp import allreduce_hook
from patallreduce.hooks.leaves import Leaves
from patallreduce.hooks.registration import Handle, register
from patallreduce.hooks.state import State

__all__ = ["Handle", "Leaves", "State", "allreduce_hook", "register"]
