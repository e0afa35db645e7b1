"""The layer callbacks with all that DDP, autograd and the compiler can do to a model."""

import logging
import time

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from patallreduce.hooks.layers import Layers
from tests.hooks.models import TiedEmbedding, batch, mlp
from tests.hooks.watching import (
    FORWARD,
    LATE_S,
    START,
    WHOLE,
    Branches,
    Fragile,
    Record,
    Watched,
    assert_equal_gradients,
    pair,
    train,
)

pytestmark = pytest.mark.usefixtures("group_of_one")


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.head = nn.Linear(128, 128)
        self.body = mlp()
        self.reentrant = reentrant

    def forward(self, x):
        return checkpoint(self.body, self.head(x), use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    plain, watched = pair(lambda: Checkpointed(reentrant))
    train((plain, watched), 3)

    assert_equal_gradients(plain, watched)
    assert watched.record.take() == pytest.approx(3 * WHOLE)


def test_shared_parameters():
    plain, watched = pair(TiedEmbedding)
    train((plain, watched), 3, "embedding")

    assert_equal_gradients(plain, watched)
    assert watched.record.take() == pytest.approx(3 * [START, FORWARD, 1 / 2, 2 / 3])
    assert all(arrival_s < watched.called_s[0] for (arrival_s,) in watched.arrivals_s)


def half_frozen():
    """The first 3 of 6 layers."""
    model = mlp()
    for parameter in model[:6].parameters():
        parameter.requires_grad_(False)
    return model


def test_frozen_parameters():
    plain, watched = pair(half_frozen)
    train((plain, watched), 3)

    assert_equal_gradients(plain, watched)
    assert watched.record.take() == pytest.approx(3 * WHOLE)


def test_parameters_ddp_ignores():
    module = mlp()
    module._ddp_params_and_buffers_to_ignore = ignored = [
        name for name, _ in module.named_parameters() if int(name.split(".")[0]) < 6
    ]
    watched = Watched(module)
    train([watched], 1)

    assert len(ignored) == 6
    assert watched.record.take() == pytest.approx(WHOLE)
    assert not module[0].weight._post_accumulate_grad_hooks
    assert module[6].weight._post_accumulate_grad_hooks


def test_parameters_frozen_later_are_not_waited_for():
    plain, watched = pair(lambda: mlp(layers=8), find_unused_parameters=True)
    train((plain, watched), 2)
    for model in (plain, watched):
        for parameter in model.ddp.module[:12].parameters():
            parameter.requires_grad_(False)
    train((plain, watched), 1)  # which has but 4 of 16 gradients
    watched.record.take()

    train((plain, watched), 2)

    assert watched.record.take() == pytest.approx(2 * WHOLE)
    assert_equal_gradients(plain, watched)


@pytest.mark.parametrize("known_to_ddp", [False, True])
def test_parameters_unfrozen_later(known_to_ddp):
    """Those DDP knows are watched from the next iteration on; it ignores the others for good."""
    modules = [mlp() for _ in range(2)]
    plain, watched = modules
    watched.load_state_dict(plain.state_dict())
    if not known_to_ddp:
        for module in modules:
            module[0].requires_grad_(False)
    models = [Watched(module, watch=False, find_unused_parameters=True) for module in modules]
    for module in modules:
        module[0].requires_grad_(False)
    models[1].layers = Layers(models[1].ddp, models[1].record)
    train(models, 2)
    for module in modules:
        module[0].requires_grad_(True)
    train(models, 2)

    assert_equal_gradients(*models)
    assert models[1].record.take() == pytest.approx(4 * WHOLE)
    assert bool(modules[1][0].weight._post_accumulate_grad_hooks) == known_to_ddp


def test_a_bucket_with_an_unused_parameter_arrives_when_ddp_calls():
    plain, watched = pair(Branches, find_unused_parameters=True)
    for which in (0, 1, 0):
        before_s = time.monotonic()
        for model in (plain, watched):
            model.ddp(torch.ones(2, 8), which).square().sum().backward()

        assert_equal_gradients(plain, watched)
        (arrival_s,) = watched.arrivals_s[-1]
        assert before_s + LATE_S < arrival_s <= watched.called_s[0]


def test_zero_buckets_of_a_rank_that_has_joined():
    """What Join makes a finished rank do in the place of a backward pass."""
    watched = Watched(mlp(), bucket_cap_mb=0.1)
    train([watched], 2)
    watched.record.take()
    before_s = time.monotonic()

    buckets = watched.ddp.reducer._get_zeros_like_grad_buckets()
    for bucket in buckets:
        watched.ddp.reducer._run_comm_hook(bucket)

    assert len(watched.arrivals_s[-1]) == len(buckets) > 1
    for arrival_s, called_s in zip(watched.arrivals_s[-1], watched.called_s, strict=True):
        assert before_s < arrival_s < called_s
    assert watched.record.take() == []
    train([watched], 1)
    assert watched.record.take() == pytest.approx(WHOLE)


def test_two_backward_passes_of_one_forward_pass_are_one_iteration():
    """DDP reduces only the first."""
    plain, watched = pair(mlp)
    for i in range(3):
        for model in (plain, watched):
            loss = model.ddp(batch("mlp", 0, i)).square().sum()
            loss.backward(retain_graph=True)
            loss.backward()
        assert watched.record.take() == pytest.approx(WHOLE)
        assert len(watched.arrivals_s) == i + 1
        assert_equal_gradients(plain, watched)


def test_two_forward_passes_of_one_backward_pass_are_one_iteration():
    plain, watched = pair(mlp)
    for i in range(3):
        for model in (plain, watched):
            outputs = [model.ddp(batch("mlp", 0, 10 * i + j)) for j in range(2)]
            torch.cat(outputs).square().sum().backward()
        assert watched.record.take() == pytest.approx(WHOLE)
        assert_equal_gradients(plain, watched)


def test_after_an_exception_in_forward_the_iteration_starts_again():
    plain, watched = pair(Fragile)
    train((plain, watched), 1)
    watched.record.take()
    for model in (plain, watched):
        with pytest.raises(ArithmeticError):
            model.ddp(torch.full((4, 128), torch.nan))

    train((plain, watched), 2)

    assert watched.record.take() == pytest.approx([START, *WHOLE, *WHOLE])
    assert_equal_gradients(plain, watched)


def test_two_wrappers_in_one_model_are_watched_apart():
    (plain, watched), (plain_2, watched_2) = pairs = [pair(mlp) for _ in range(2)]
    for i in range(3):
        for parts in ((plain, plain_2), (watched, watched_2)):
            model = nn.Sequential(*[part.ddp for part in parts])
            model(batch("mlp", 0, i)).square().sum().backward()
    for alone, heard in pairs:
        assert_equal_gradients(alone, heard)
        assert heard.record.take() == pytest.approx(3 * WHOLE)
        assert len(heard.arrivals_s) == 3


class Block(nn.Module):
    """Code of the user's own: torch.compile leaves torch's modules alone."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 128)

    def forward(self, x):
        return torch.tanh(self.linear(x)) + x


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(4)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("how", ["submodules", "whole", "in place"])
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_torch_compile(how):
    torch._dynamo.reset()
    plain, watched = pair(Blocks)
    graphs = []
    model = compiled(watched.ddp, how, graphs)
    compiled_by_then = []
    for i in range(4):
        plain.train(batch("mlp", 0, i))
        model(batch("mlp", 0, i)).square().sum().backward()
        assert_equal_gradients(plain, watched)
        compiled_by_then.append(len(graphs))

    assert watched.record.take() == pytest.approx(4 * WHOLE)
    assert watched.record.times_s == sorted(set(watched.record.times_s)), "no constant"
    assert len(watched.arrivals_s) == 4
    assert compiled_by_then[0] > 0
    assert compiled_by_then[3] == compiled_by_then[1], "not again and again"


def compiled(ddp, how, graphs):
    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    if how == "whole":
        return torch.compile(ddp, backend=backend)
    for module in ddp.module.blocks if how == "submodules" else [ddp]:
        module.compile(backend=backend)
    return ddp


def test_the_python_reducer_is_left_alone_with_one_warning(caplog):
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        ddp = DistributedDataParallel(mlp())
    with caplog.at_level(logging.WARNING, "patallreduce"):
        layers = Layers(ddp, record := Record())
    ddp(batch("mlp", 0, 0)).sum().backward()

    assert [r.name for r in caplog.records] == ["patallreduce"]
    assert "python_reducer" in caplog.text
    assert record.heard == []
    before_s = time.monotonic()
    (arrival_s,) = layers.bucket(0, list(ddp.parameters()), True)
    assert before_s <= arrival_s <= time.monotonic()
