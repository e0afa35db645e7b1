"""Save a training run and go on later as if nothing had happened.

A checkpoint holds tensors, numbers and containers of them only, so it loads with
`weights_only=True`: a checkpoint from elsewhere cannot run code. It belongs to one number of ranks
and one seed, because these decide which rank sees which image when.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer


def save(path: Path, model: nn.Module, optimizer: Optimizer, *, iteration: int, seed: int) -> None:
    """Write a checkpoint from which `iteration` is the next to run. Every rank must call."""
    # Ranks draw different random numbers (dropout, say, if the network had any): keep them all.
    rng_states = [torch.empty_like(torch.get_rng_state()) for _ in range(dist.get_world_size())]
    dist.all_gather(rng_states, torch.get_rng_state())
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        half_written = path.with_name(path.name + ".part")
        torch.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "rng_states": rng_states,
                "iteration": iteration,
                "seed": seed,
            },
            half_written,
        )
        os.replace(half_written, path)  # a kill in between leaves the previous checkpoint whole


def resume(path: Path, model: nn.Module, optimizer: Optimizer, *, seed: int) -> int:
    """Load a checkpoint into model, optimizer and this rank's generator.

    Returns:
        The next iteration to run; 0 when there is no checkpoint yet.

    Raises:
        ValueError: The checkpoint was made with another number of ranks or another seed.
    """
    # One rank looks and all follow: on a slow shared file system they might see different things.
    exists = torch.tensor([path.is_file()], dtype=torch.int32)
    dist.broadcast(exists, src=0)
    if not exists.item():
        return 0
    saved = torch.load(path, map_location="cpu", weights_only=True)
    ranks = dist.get_world_size()
    if (len(saved["rng_states"]), saved["seed"]) != (ranks, seed):
        raise ValueError(
            f"{path} was made by {len(saved['rng_states'])} ranks with seed {saved['seed']}; "
            f"this run has {ranks} ranks and seed {seed}"
        )
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng_states"][dist.get_rank()])
    return int(saved["iteration"])
