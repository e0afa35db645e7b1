"""What decides which kernels compute a gradient, and with that its last bits."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import torch

from patallreduce import _core
from patallreduce.communicator.communicator import Communicator
from patallreduce.pricing.schedules import SAFE


class Kernels(NamedTuple):
    """Names and values, as text."""

    values: Mapping[str, str]

    @classmethod
    def here(cls) -> Kernels:
        """Those of this process and this thread."""
        return cls(
            {
                "torch": str(torch.__version__),  # else no torch.load(weights_only=True)
                "vector instructions": torch.backends.cpu.get_cpu_capability(),
                "threads": str(torch.get_num_threads()),
                "flushing of subnormals": "on" if _core.flushes_subnormals() else "off",
            }
        )

    def differing(self, others: Mapping[str, str]) -> str:
        """What another process has otherwise, as text; empty if nothing."""
        return ", ".join(
            f"{name} {others.get(name)} (here {value})"
            for name, value in self.values.items()
            if others.get(name) != value
        )

    def compare(self, communicator: Communicator) -> None:
        """Warn on every rank where ranks differ; collective."""
        hashes = torch.zeros((communicator.ranks, len(self.values)), dtype=torch.int64)
        mine = [zlib.crc32(value.encode()) for value in self.values.values()]
        hashes[communicator.rank] = torch.tensor(mine)
        communicator.all_reduce(hashes, algorithm=SAFE, segments=1)
        for name, column in zip(self.values, hashes.T.tolist(), strict=True):
            rank = next((rank for rank, value in enumerate(column) if value != column[0]), None)
            if rank is not None:
                warnings.warn(
                    f"rank {communicator.rank}: ranks 0 and {rank} differ in {name} (here "
                    f"{self.values[name]}): gradients may depend on which rank owns a leaf",
                    RuntimeWarning,
                    stacklevel=5,
                )
