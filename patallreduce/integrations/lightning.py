"""Lightning: one callback, `Trainer(strategy="ddp", callbacks=[AverageGradients()])`."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from patallreduce.hooks.registration import Handle, register


class AverageGradients(Callback):
    """Lets patallreduce average the gradients, from the start of training to its end.

    Lightning itself registers communication hooks on CUDA only (`DDPStrategy(ddp_comm_hook=...)`);
    this works on the CPU as well. `handle` is what `register` gave, None outside of training.

    Args:
        arguments: Those of `patallreduce.register`.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self.handle: Handle | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Register what the strategy made of the module."""
        model = trainer.strategy.model
        assert model is not None  # it is set up before this is called
        self.handle = register(model, **self._arguments)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Release the communicator."""
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Release it."""
        self._close()

    def _close(self) -> None:
        if self.handle is not None:
            self.handle.close()
            self.handle = None
