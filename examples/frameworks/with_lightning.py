"""Lightning: gradients averaged by patallreduce, one rank late on purpose.

torchrun --nproc-per-node 2 examples/frameworks/with_lightning.py
"""

import time

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

import patallreduce as pat
from patallreduce.integrations.lightning import AverageGradients

LATE_S = 0.03


class Regression(LightningModule):
    """A line through points; rank 1 computes longer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
        )

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        """Return the loss of one batch."""
        points, values = batch
        if self.global_rank == 1:
            time.sleep(LATE_S)
        return torch.nn.functional.mse_loss(self.layers(points), values)

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        """Between epochs, without gradients."""
        self.layers(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain descent."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


class SaysWhoIsLate(AverageGradients):
    """After training."""

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ask while there is a handle."""
        if self.handle is not None and trainer.is_global_zero:
            print(f"late: {self.handle.stragglers().identify_stragglers()}")
        super().on_train_end(trainer, pl_module)


def main() -> None:
    """Train two epochs."""
    torch.manual_seed(0)
    points = torch.randn(640, 8)
    data = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), batch_size=16)
    averaging = SaysWhoIsLate(link=pat.Link(20e-6, 1e9))
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        callbacks=[averaging],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(), data, data)


if __name__ == "__main__":
    main()
