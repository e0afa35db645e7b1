"""Train on a few ranks, one of them slow, and be told which one.

    torchrun --nproc-per-node 4 examples/straggler.py

Rank 0 prints the report and keeps what it saw in run.jsonl.
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce.ending import end_rank

SLOW_RANK = 2
SLOW_S = 0.05


class Slow(nn.Module):
    """What a busy or throttled machine is to its job: the same work, later."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x."""
        time.sleep(SLOW_S)
        return x


def main() -> None:
    rank = dist.get_rank()
    torch.manual_seed(0)
    slow = Slow() if rank == SLOW_RANK else nn.Identity()
    network = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), slow, nn.Linear(256, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    handle = pat.register(model)  # the one line

    for _ in range(30):
        optimizer.zero_grad()
        x, y = torch.randn(32, 256), torch.randint(10, (32,))
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    if rank == 0:  # it knows when every rank arrived
        print(handle.stragglers())
        pat.save_iterations("run.jsonl", handle.iterations())
    handle.close()


if __name__ == "__main__":
    torch.set_num_threads(1)  # ranks share the machine's cores
    dist.init_process_group("gloo")
    try:
        main()
    finally:
        dist.destroy_process_group()
    end_rank()
