"""What PyTorch calls: the communication hook of DistributedDataParallel."""

from patallreduce.hooks.ddp import Handle, State, allreduce_hook, register

__all__ = ["Handle", "State", "allreduce_hook", "register"]
