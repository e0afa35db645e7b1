"""That few parameters keep a hook, and that a change is noticed; in a group of one."""

import time

import pytest
import torch
from torch import nn

from tests.hooks.models import batch, mlp
from tests.hooks.watching import LATE_S, WHOLE, Late, Watched, assert_equal_gradients, pair, train

pytestmark = pytest.mark.usefixtures("group_of_one")


class Products(nn.Module):
    """Multiplies by its parameters, in either order; the bottleneck comes late in backward."""

    def __init__(self, parameters=1000, width=8):
        super().__init__()
        self.factors = nn.ParameterList([torch.ones(width) for _ in range(parameters)])
        self.crossed = False

    def forward(self, x):
        factors = list(self.factors)
        half = len(factors) // 2
        order = factors[half:] + factors[:half] if self.crossed else factors
        for i, factor in enumerate(order):
            x = x * factor
            if i == half - 1:
                x = Late.apply(x)
        return x


def hooks_of(watched):
    return sum(bool(p._post_accumulate_grad_hooks) for p in watched.ddp.parameters())


def test_of_1000_parameters_few_keep_a_hook():
    plain, watched = pair(Products, bucket_cap_mb=0.01)
    for _ in range(6):
        for model in (plain, watched):
            model.train(torch.ones(8))
        assert_equal_gradients(plain, watched)
        assert watched.record.take() == pytest.approx(WHOLE)
        arrivals_s = watched.arrivals_s[-1]
        assert all(a < c for a, c in zip(arrivals_s, watched.called_s, strict=True))
    assert len(arrivals_s) > 2
    assert 0 < hooks_of(watched) <= 3 + 2 * len(arrivals_s)


def test_another_order_is_learned_again():
    """Buckets that wait, where none did: the second half of them, registered last, comes last."""
    watched = Watched(Products(100), find_unused_parameters=True, bucket_cap_mb=0.001)
    for _ in range(5):
        watched.train(torch.ones(8))
    assert hooks_of(watched) == 3
    watched.record.take()

    watched.ddp.module.crossed = True
    before_s = time.monotonic()
    watched.train(torch.ones(8))
    assert min(watched.arrivals_s[-1]) > before_s, "none is missing"
    watched.ddp(torch.ones(8))
    assert hooks_of(watched) == 100
    for _ in range(8):
        watched.train(torch.ones(8))
        arrivals_s = watched.arrivals_s[-1]
        assert watched.called_s[-1] - arrivals_s[-1] >= LATE_S, "the last ones wait"
        assert arrivals_s[0] - arrivals_s[-1] >= LATE_S
    assert hooks_of(watched) <= 3 + 2 * len(arrivals_s)


def test_a_parameter_frozen_is_noticed():
    plain, watched = pair(lambda: mlp(layers=8), find_unused_parameters=True)
    train((plain, watched), 5)
    for model in (plain, watched):
        for parameter in model.ddp.module[:12].parameters():
            parameter.requires_grad_(False)
    train((plain, watched), 1)
    watched.record.take()
    train((plain, watched), 5)
    assert watched.record.take() == pytest.approx(5 * WHOLE)
    assert_equal_gradients(plain, watched)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_the_compiler_does_not_mind_that_hooks_come_and_go():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    plain, watched = pair(mlp)
    model = torch.compile(watched.ddp, backend=backend)
    compiled_by_then = []
    for i in range(8):
        plain.train(batch("mlp", 0, i))
        model(batch("mlp", 0, i)).square().sum().backward()
        assert_equal_gradients(plain, watched)
        compiled_by_then.append(len(graphs))
    assert compiled_by_then[7] == compiled_by_then[1]
    assert hooks_of(watched) == 3
