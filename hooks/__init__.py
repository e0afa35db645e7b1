"""What PyTorch calls: the communication hook of DistributedDataParallel."""

from patallreduce.hooks.ddp import State, allreduce_hook
from patallreduce.hooks.leaves import Leaves, leaves_hook
from patallreduce.hooks.registration import Handle, register

__all__ = ["Handle", "Leaves", "State", "allreduce_hook", "leaves_hook", "register"]
