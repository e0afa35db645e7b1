"""Transformers: one callback of its Trainer, `trainer.add_callback(AverageGradients(trainer))`."""

from __future__ import annotations

from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from patallreduce.hooks.registration import Handle, register


class AverageGradients(TrainerCallback):
    """Lets patallreduce average the gradients, from the start of training to its end.

    `handle` is what `register` gave, None outside of training.

    Args:
        trainer: Callbacks are not told what it makes of its model.
        arguments: Those of `patallreduce.register`.
    """

    def __init__(self, trainer: Trainer, **arguments: Any) -> None:
        self._trainer = trainer
        self._arguments = arguments
        self.handle: Handle | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Register the model that the Trainer has wrapped by now."""
        self.handle = register(self._trainer.model_wrapped, **self._arguments)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Release the communicator."""
        if self.handle is not None:
            self.handle.close()
            self.handle = None
