"""DDP in processes: the report names the late rank, and the part of its iteration that is late."""

import logging
import time

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce.hooks import straggler_log

pytestmark = pytest.mark.alone  # it measures times

RANKS, LATE, LATE_S, ITERATIONS = 4, 2, 0.05, 30
LAYERS, BEHIND = 8, 6  # of 8 gradients the last two are ready before that layer's input has one


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


class Pause(torch.autograd.Function):
    """Hands its input on, and sleeps in the backward pass."""

    @staticmethod
    def forward(ctx, x, pause_s):
        ctx.pause_s = pause_s
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.pause_s)
        return gradient, None


class Sleeper(nn.Module):
    """Takes longer, in the forward pass or in the second quarter of the backward pass."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(LAYERS))
        self.forward_s = self.backward_s = 0.005

    def forward(self, x):
        time.sleep(self.forward_s)
        for index, layer in enumerate(self.layers):
            x = layer(Pause.apply(x, self.backward_s) if index == BEHIND else x)
        return x


def train(phase):
    """One rank of the job; the last rank's is late in that phase."""
    torch.manual_seed(0)
    module = Sleeper()
    model = DistributedDataParallel(module)
    handle = pat.register(model, timeout_s=30.0)
    kept = Kept()
    logging.getLogger("patallreduce").addHandler(kept)
    if torch.distributed.get_rank() == 0:
        straggler_log._SHARE = 1.0  # register has more patience
        straggler_log.watch(handle.communicator, 1, every_s=0.1)
    late_s = LATE_S if torch.distributed.get_rank() == LATE else 0.0
    if phase != "input":
        setattr(module, f"{phase}_s", 0.005 + late_s)
    for _ in range(ITERATIONS):
        if phase == "input":
            time.sleep(late_s)
        model(torch.ones(4, 64)).sum().backward()
    torch.distributed.barrier()
    report = handle.stragglers()
    handle.close()
    return report.findings, str(report), kept.messages


@pytest.mark.parametrize(
    ("phase", "part", "sentence"),
    [
        ("input", "", "from its last sum to its next forward pass (input, optimizer) it takes"),
        ("forward", "", "its forward pass takes"),
        ("backward", "second quarter", "its backward pass takes"),
    ],
)
def test_the_late_rank_and_the_cause_are_named(processes, phase, part, sentence):
    (found, text, warned), *others = processes.run(RANKS, train, phase)

    # A busy machine makes others late, too, by less.
    largest = max(found, key=lambda finding: finding.longer_s)
    assert (largest.rank, largest.cause, largest.part) == (LATE, phase, part)
    assert largest.longer_s > LATE_S / 2
    assert largest.share > 0.5
    assert str(largest) in text
    assert f"rank {LATE} is late by" in text
    assert sentence in text
    assert any(f"rank {LATE} is late by" in line and sentence in line for line in warned)
    for findings, _, messages in others:  # they know themselves alone
        assert findings == ()
        assert not any("is late by" in line for line in messages)
