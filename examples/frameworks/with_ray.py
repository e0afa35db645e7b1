"""Ray Train: gradients averaged by patallreduce, one worker late on purpose.

    python examples/frameworks/with_ray.py

What `prepare_model` returns on several workers is a DistributedDataParallel: no integration is
needed.
"""

import tempfile
import time

import ray
import torch
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

import patallreduce as pat

LATE_S = 0.03
ITERATIONS = 40


def train_loop() -> None:
    """One worker: train; the first one says who was late."""
    torch.manual_seed(0)
    model = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    handle = pat.register(model, link=pat.Link(20e-6, 1e9))
    rank = train.get_context().get_world_rank()
    for _ in range(ITERATIONS):
        points = torch.randn(16, 8)
        if rank == 1:
            time.sleep(LATE_S)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(points), points.sum(1, keepdim=True)).backward()
        optimizer.step()
    if rank == 0:
        print(f"late: {handle.stragglers().identify_stragglers()}")
    handle.close()


def main() -> None:
    """Run two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            train_loop,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=folder),
        )
        trainer.fit()


if __name__ == "__main__":
    main()
