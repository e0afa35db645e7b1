"""Hooks on a DDP module that stay with it: copies and pickles carry none."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


class ModuleCallback:
    """A forward hook, or pre-hook, of the module it is registered on: a copy of it does nothing."""

    def __init__(self, call: Callable[[DistributedDataParallel], None]) -> None:
        # Otherwise torch.compile breaks its graph inside the callback at each reading of the clock,
        # and compiles the pieces.
        self._call: Callable[[DistributedDataParallel], None] = torch.compiler.disable(call)

    def __call__(self, module: DistributedDataParallel, *_: Any) -> None:
        """Call it with the module; what else the hook is given is not needed."""
        self._call(module)

    def __reduce__(self) -> tuple[Any, ...]:
        return _get_nothing, ()


def _nothing(*_: Any) -> None:
    pass


def _get_nothing() -> Callable[..., None]:
    return _nothing
