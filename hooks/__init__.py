"""What PyTorch calls: the communication hook of DistributedDataParallel."""

from patallreduce.hooks.ddp import Handle, State, allreduce_hook, register
from patallreduce.hooks.leaves import Leaves, leaves_hook

__all__ = ["Handle", "Leaves", "State", "allreduce_hook", "leaves_hook", "register"]
