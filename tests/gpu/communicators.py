"""Communicators whose CPU tensors pose as a GPU's: fake CUDA and NCCL, ranks as threads."""

import torch

from patallreduce import Communicator, _core
from tests.threads import on_threads

CPU = torch.device("cpu")
LINK_TIMEOUT_S = 20.0


def stream(engine, libraries, unique_ids):
    """Over the fake NCCL."""
    return _core.NcclCarrier(engine, libraries.gpu, libraries.nccl, 0, unique_ids, LINK_TIMEOUT_S)


def stage(engine, libraries, _):
    """Through pinned memory, over the engine."""
    return _core.StagedCarrier(engine, libraries.gpu, 0, False)


class GpuRanks:
    """`count` ranks as threads. `each(function)` calls function(communicator) on all at once."""

    def __init__(self, libraries, count, timeout_s=LINK_TIMEOUT_S, carry=None, **options):
        self.libraries = libraries
        self.communicators = Communicator.loopback(count, timeout_s, **options)
        self.unique_ids = [
            _core.nccl_unique_id(libraries.nccl) for _ in range(_core.lanes_for(count))
        ]
        carry = carry or stream
        self.each(
            lambda one: one.session.gpus.add(
                CPU, carry(one.session.engine, libraries, self.unique_ids)
            )
        )

    def each(self, function):
        """[rank] -> what it returned, or the error it raised."""

        def outcome(communicator):
            try:
                return function(communicator)
            except Exception as error:
                return error

        return on_threads(self.communicators, outcome)

    def close(self):
        self.each(lambda communicator: communicator.close())
