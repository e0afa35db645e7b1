"""Where a rank computes: on the processor, or on a GPU, chosen by its number on its machine."""

import os
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Place:
    """What a training script needs to know of the device."""

    device: torch.device
    backend: str  # of the process group: what is on the processor goes through Gloo everywhere

    @property
    def device_ids(self) -> list[int] | None:
        """As DistributedDataParallel wants it: None for a model on the processor."""
        return None if self.device.index is None else [self.device.index]


def choose_place(name: str) -> Place:
    """Take the processor, or this rank's GPU, which becomes torch's current device.

    Ranks of a machine with fewer GPUs share them, which is for trying out only: NCCL refuses two
    ranks on one GPU of one host, so each then goes for a host of its own, and their data through
    sockets.

    Raises:
        SystemExit: There is no GPU.
    """
    if name == "cpu":
        return Place(torch.device("cpu"), "gloo")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        raise SystemExit(f"--device cuda: torch {torch.__version__} sees no GPU")
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > gpus:
        os.environ.setdefault("NCCL_HOSTID", f"{os.uname().nodename}-{rank}")
    device = torch.device("cuda", rank % gpus)
    torch.cuda.set_device(device)
    return Place(device, "cpu:gloo,cuda:nccl")
