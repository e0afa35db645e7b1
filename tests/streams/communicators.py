"""Communicators whose CPU tensors pose as a GPU's: played CUDA and NCCL, ranks as threads."""

from concurrent.futures import ThreadPoolExecutor

import torch

from patallreduce import Communicator, _core

CPU = torch.device("cpu")
LINK_TIMEOUT_S = 20.0


class GpuRanks:
    """`count` ranks as threads. `each(function)` calls function(communicator) on all at once."""

    def __init__(self, libraries, count, timeout_s=LINK_TIMEOUT_S, **options):
        self.libraries = libraries
        self._threads = ThreadPoolExecutor(count)
        self.communicators = Communicator.loopback(count, timeout_s, **options)
        self.unique_id = _core.nccl_unique_id(libraries.nccl)
        self.each(self._join)

    def _join(self, communicator):
        engine, libraries = communicator._engine, self.libraries
        calls = _core.StreamCalls(
            engine, libraries.gpu, libraries.nccl, 0, self.unique_id, LINK_TIMEOUT_S
        )
        communicator._gpus.add(CPU, calls)

    def each(self, function):
        """[rank] -> what it returned, or the error it raised."""

        def outcome(communicator):
            try:
                return function(communicator)
            except Exception as error:
                return error

        return list(self._threads.map(outcome, self.communicators))

    def close(self):
        self.each(lambda communicator: communicator.close())
        self._threads.shutdown()
