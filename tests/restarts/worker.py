"""A rank of a training run that torchrun starts again and again: resumes, trains, checkpoints.

    worker.py FOLDER

Ends after the iteration that FOLDER/last names, once that file is there; rank 0 then writes the
model's fingerprint.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat

ITERATION_S = 0.01


def last_iteration(folder: Path) -> int:
    """The same on all ranks; 0: not known yet."""
    last = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank() == 0 and (folder / "last").exists():
        last[0] = int((folder / "last").read_text())
    dist.broadcast(last, src=0)
    return int(last)


def train(folder: Path) -> None:
    """Go on from the last checkpoint."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01, momentum=0.9)
    iteration = 0
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        iteration = saved["iteration"]
    pat.register(ddp_model, algorithm="reproducible", timeout_s=20)
    rank = dist.get_rank()
    tell(folder, "trains")
    while (last := last_iteration(folder)) == 0 or iteration < last:
        drawn = torch.Generator().manual_seed(1000 * iteration + rank)
        optimizer.zero_grad()
        ddp_model(torch.randn(8, 64, generator=drawn)).square().mean().backward()
        time.sleep(ITERATION_S)
        optimizer.step()
        iteration += 1
        if rank == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "iteration": iteration,
            }
            torch.save(state, folder / "checkpoint.new")
            (folder / "checkpoint.new").rename(checkpoint)
    if rank == 0:
        (folder / "fingerprint").write_text(pat.fingerprint(model))


def tell(folder: Path, what: str) -> None:
    """Which process this rank is."""
    file = folder / f"{what}-{os.environ['RANK']}"
    new = file.with_suffix(".new")
    new.write_text(str(os.getpid()))
    new.rename(file)


def main() -> None:
    """Be a rank."""
    folder = Path(sys.argv[1])
    tell(folder, "started")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(folder)


if __name__ == "__main__":
    main()
