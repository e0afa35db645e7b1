"""Runs DDP tests that are shipped inside torch on CPU ranks, with our hook in every DDP model.

torch.testing._internal.distributed.distributed_test asks for one GPU per rank in most tests, for
no reason but placement. Here a device number means the CPU, `.cuda()` does nothing, and every
DistributedDataParallel registers the hook as it is made.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

import patallreduce as pat
from tests.processes import LINK


def on_cpu(value: Any) -> Any:
    """A device as tests name it, moved to the CPU."""
    if isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda")):
        return torch.device("cpu")
    return value


class DevicesAreCpu(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return args[0]
        if "device" in kwargs and kwargs["device"] is not None:
            kwargs["device"] = torch.device("cpu")
        if function is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], "cpu", *args[2:])
        return function(*[on_cpu(arg) for arg in args], **kwargs)


@contextlib.contextmanager
def hooked(handles: list[pat.hooks.Handle] | None) -> Iterator[None]:
    """DDP on CPU; with our hook and its handle in `handles`, or plain if that is None."""
    make, module_to = DistributedDataParallel.__init__, nn.Module.to

    def init(self, module, device_ids=None, output_device=None, *args, **kwargs):
        make(self, module, None, None, *args, **kwargs)
        if handles is not None:
            handles.append(pat.register(self, timeout_s=20, link=LINK))

    def to(self, *args, **kwargs):
        return module_to(self, *["cpu" if type(a) is int else on_cpu(a) for a in args], **kwargs)

    with (
        mock.patch.object(DistributedDataParallel, "__init__", init),
        mock.patch.object(nn.Module, "to", to),
        mock.patch.object(nn.Module, "cuda", lambda self, device=None: self),
        mock.patch.multiple(
            torch.cuda, set_device=lambda device: None, synchronize=lambda device=None: None
        ),
        DevicesAreCpu(),
    ):
        yield


def _run_anyway(*_: Any, **__: Any) -> Any:
    return lambda test: test


def suite() -> type:
    """The shipped tests as a class whose ranks are already there."""
    common = importlib.import_module("torch.testing._internal.common_distributed")
    with mock.patch.object(common, "skip_if_lt_x_gpu", _run_anyway):
        shipped = importlib.import_module("torch.testing._internal.distributed.distributed_test")
    cases = importlib.import_module("torch.testing._internal.common_utils").TestCase

    class Suite(cases, shipped.DistributedTest._DistTestBase):  # type: ignore[misc,name-defined]
        rank = property(lambda self: dist.get_rank())
        world_size = property(lambda self: dist.get_world_size())

        def _barrier(self, *args, **kwargs):
            dist.barrier()

    return Suite


@contextlib.contextmanager
def environment() -> Iterator[None]:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(
            os.environ,
            {
                "BACKEND": "gloo",
                "WORLD_SIZE": str(dist.get_world_size()),
                "TEMP_DIR": folder,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "0",
            },
        ),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:  # some tests raise it
            dist.set_debug_level(dist.DebugLevel.OFF)


def run_shipped(name: str, with_hook: bool = True) -> int:
    """Run the shipped test `name` on this rank; how many buckets the hook averaged."""
    handles: list[pat.hooks.Handle] | None = [] if with_hook else None
    with environment():
        test = suite()(name)
        try:
            with hooked(handles):
                test.setUp()
                getattr(test, name)()
                test.tearDown()
        except SystemExit as skip:
            raise RuntimeError(f"the shipped test skipped itself: {skip.code}") from skip
        communicators = {handle.communicator for handle in handles or []}
        buckets = sum(len(communicator.stats()) for communicator in communicators)
        for handle in handles or []:
            handle.close()
    return buckets


def run_hook_parity() -> int:
    """Torch's parity test of communication hooks, given ours: 100 iterations."""
    with environment():
        test = suite()("test_ddp_hook_parity_allreduce")
        state = pat.hooks.State(timeout_s=20)
        with hooked(None):
            test._test_ddp_hook_parity(state=state, hook=pat.hooks.allreduce_hook)
        buckets = len(state.communicator.stats())
        state.release()
    return buckets
