"""The GPUs of one communicator: what carries their tensors is made with the first one of each."""

from __future__ import annotations

import torch

from patallreduce import _core
from patallreduce.arguments import refused
from patallreduce.communicator import ucx
from patallreduce.communicator.gpu_calls import Carrier, GpuCalls
from patallreduce.communicator.rendezvous import Rendezvous
from patallreduce.gpu import cuda, nccl
from patallreduce.gpu.memory import check_ucx_takes_cuda

TRANSPORTS = ("auto", "ucx", "nccl", "staged")
_OF_GPUS = ("nccl", "staged")


class Gpus:
    """What carries the tensors of each GPU that this rank uses, by device.

    Args:
        engine: The communicator's engine.
        rendezvous: How its ranks find each other; None: they are threads and have no GPUs.
        transport: One of `TRANSPORTS`, as of `Communicator`.
        timeout_s: For all ranks to come.
    """

    def __init__(
        self,
        engine: _core.Engine,
        rendezvous: Rendezvous | None,
        transport: str,
        timeout_s: float,
    ) -> None:
        self._engine = engine
        self._rendezvous = rendezvous
        self._transport = transport
        self._timeout_s = timeout_s
        self._made: dict[torch.device, GpuCalls] = {}

    def of(self, device: torch.device) -> GpuCalls | None:
        """What carries the tensors of a device; None for the processor's. Collective at first.

        Raises:
            CudaError: there are no kernels, or no such GPU.
            TransportError: there is no NCCL, UCX does not take the GPU's memory, or a rank did not
                come.
        """
        made = self._made.get(device)
        if made is None and self.is_gpu(device):
            if device.type == "cuda" and device.index is None:
                # Tensors name theirs, people may not.
                try:
                    current = torch.cuda.current_device()
                except (AssertionError, RuntimeError):  # no CUDA in torch; no driver, no GPU
                    expected = "a GPU that torch sees"
                    raise _core.CudaError(refused("device", expected, device)) from None
                return self.of(torch.device("cuda", current))
            made = self.add(device, self._make(device))
        return made

    def of_model(self, device: torch.device) -> GpuCalls | None:
        """As `of`, for what a model computes on; ValueError if the transport is not for it."""
        try:
            device = torch.device(device)
        except (RuntimeError, TypeError):
            raise TypeError(refused("device", "a torch.device", device)) from None
        if not self.is_gpu(device) and self._transport in _OF_GPUS:
            expected = f"auto or ucx for a model on the {device.type}"
            raise ValueError(refused("transport", expected, self._transport))
        return self.of(device)

    @staticmethod
    def is_gpu(device: torch.device) -> bool:
        """Whether its tensors are not the engine's to read."""
        return device.type == "cuda"

    def add(self, device: torch.device, native: Carrier) -> GpuCalls:
        """Let `native` carry the tensors of a device."""
        made = self._made[device] = GpuCalls(native, device)
        return made

    def close(self, timeout_s: float) -> None:
        """Drain and release everything. Idempotent."""
        for calls in self._made.values():
            calls.close(timeout_s)

    def _make(self, device: torch.device) -> Carrier:
        if self._rendezvous is None:
            raise TypeError(f"expected a CPU tensor, got {device}: ranks as threads have no GPUs")
        kernels = cuda.library_path()
        index = device.index or 0
        if self._transport in ("staged", "ucx"):
            direct = self._transport == "ucx"
            if direct:
                check_ucx_takes_cuda(ucx.library_path())
            return _core.StagedCarrier(self._engine, kernels, index, direct)
        path = nccl.library_path()
        rank, number = self._rendezvous.rank, len(self._made)
        unique_ids = [
            self._rendezvous.from_rank_0(
                f"nccl/{number}/{lane}", _core.nccl_unique_id(path) if rank == 0 else b""
            )
            for lane in range(_core.lanes_for(self._rendezvous.ranks))
        ]
        return _core.NcclCarrier(self._engine, kernels, path, index, unique_ids, self._timeout_s)
