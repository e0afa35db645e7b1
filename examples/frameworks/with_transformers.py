"""Transformers' Trainer: gradients averaged by patallreduce, one rank late on purpose.

torchrun --nproc-per-node 2 examples/frameworks/with_transformers.py
"""

import tempfile
import time
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerState, TrainingArguments

import patallreduce as pat
from patallreduce.integrations.transformers import AverageGradients

LATE_S = 0.05
TOKENS, LENGTH = 64, 32


class Counting(Dataset[dict[str, torch.Tensor]]):
    """Sequences that count upwards."""

    def __len__(self) -> int:
        """Return their number."""
        return 320

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one; the model shifts the labels itself."""
        tokens = (index + torch.arange(LENGTH)) % TOKENS
        return {"input_ids": tokens, "labels": tokens}


class LateTrainer(Trainer):
    """Rank 1 computes longer."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """As the Trainer does, but later."""
        if self.args.process_index == 1:
            time.sleep(LATE_S)
        return super().compute_loss(*args, **kwargs)


class SaysWhoIsLate(AverageGradients):
    """After training."""

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, *rest: Any, **more: Any
    ) -> None:
        """Ask while there is a handle."""
        if self.handle is not None and state.is_world_process_zero:
            print(f"late: {self.handle.stragglers().identify_stragglers()}")
        super().on_train_end(args, state, *rest, **more)


def main() -> None:
    """Train one epoch."""
    config = GPT2Config(
        vocab_size=TOKENS, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=2, use_cache=False
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            num_train_epochs=1,
            per_device_train_batch_size=8,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = LateTrainer(
            model=GPT2LMHeadModel(config), args=arguments, train_dataset=Counting()
        )
        trainer.add_callback(SaysWhoIsLate(trainer, link=pat.Link(20e-6, 1e9)))
        trainer.train()


if __name__ == "__main__":
    main()
