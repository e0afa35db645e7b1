"""Accelerate: gradients averaged by patallreduce, one rank late on purpose.

    torchrun --nproc-per-node 2 examples/frameworks/with_accelerate.py

What `prepare` returns on several ranks is a DistributedDataParallel: no integration is needed.
"""

import time

import torch
from accelerate import Accelerator

import patallreduce as pat

LATE_S = 0.03
ITERATIONS = 40


def main() -> None:
    """Train, and say who was late."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    handle = pat.register(model, link=pat.Link(20e-6, 1e9))
    for _ in range(ITERATIONS):
        points = torch.randn(16, 8)
        if accelerator.process_index == 1:
            time.sleep(LATE_S)
        loss = torch.nn.functional.mse_loss(model(points), points.sum(1, keepdim=True))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.is_main_process:
        print(f"late: {handle.stragglers().identify_stragglers()}")
    handle.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
