"""Train on the nodes that there are just now, and end with the same weights whatever they were.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --nnodes 1:2 --nproc-per-node 2 --max-restarts 100 --rdzv-id train \
      --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29400 examples/elastic_nodes.py FOLDER

When a node comes or goes, torchrun ends all ranks and starts others, numbered anew. They go on from
the checkpoint in FOLDER, which all nodes see. What a global batch consists of is the same on any
number of ranks: it is cut into leaves, and a rank does some of them.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce.ending import end_rank

LEAVES = 8  # the most ranks that there can be


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the checkpoint")
    parser.add_argument("--iterations", type=int, default=100)
    return parser.parse_args()


def batch(iteration: int, leaf: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What a leaf consists of; `pat.LeafSampler` deals a data set."""
    drawn = torch.Generator().manual_seed(iteration * LEAVES + leaf)
    inputs = torch.randn(16, 256, generator=drawn)
    return inputs, inputs[:, :10].argmax(1)


def main() -> None:
    options = parse_options()
    checkpoint = options.folder / "checkpoint.pt"
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    handle = pat.register(model, leaves=LEAVES)
    states: dict[str, Any] = {"network": network, "optimizer": optimizer, "leaves": handle.leaves}
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        first = saved.pop("iteration")
        for name, state in saved.items():
            states[name].load_state_dict(state)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks go on from iteration {first}", flush=True)

    for iteration in range(first, options.iterations):
        optimizer.zero_grad()
        for leaf in handle.leaves:
            inputs, labels = batch(iteration, leaf)
            cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            kept = {name: state.state_dict() for name, state in states.items()}
            save(checkpoint, {**kept, "iteration": iteration + 1})
    if dist.get_rank() == 0:
        print(f"the weights: {pat.fingerprint(network)[:16]}", flush=True)
    handle.close()


def save(checkpoint: Path, kept: dict[str, Any]) -> None:
    """Under its name only once it is whole: a rank can be ended at any time."""
    new = checkpoint.with_suffix(".new")
    torch.save(kept, new)
    new.rename(checkpoint)


if __name__ == "__main__":
    torch.set_num_threads(1)  # their number may change the bits, so keep it
    dist.init_process_group("gloo")
    main()
    dist.destroy_process_group()
    end_rank()
