"""The layer callbacks alone, in whatever a training loop does to a DDP model."""

import copy
import gc
import io
import logging
import time
import weakref

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patallreduce.hooks.layers import Layers
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tests.hooks.models import ConvBatchNorm, TiedEmbedding, batch, mlp
from tests.hooks.watching import (
    FORWARD,
    START,
    WHOLE,
    Record,
    Watched,
    assert_equal_gradients,
    assert_no_hooks,
    pair,
)

LATE_S = 0.02

pytestmark = pytest.mark.usefixtures("group_of_one")


@pytest.fixture
def group_of_one():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def train(models, iterations=3, name="mlp"):
    for i in range(iterations):
        for model in models:
            model.train(batch(name, 0, i))


class Late(torch.autograd.Function):
    """Makes everything before it late in backward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(LATE_S)
        return gradient


class Crossed(nn.Module):
    """Used in the order of registration, as DDP expects; `crossed`, the other way round."""

    def __init__(self, crossed, width=512):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(2)])
        self.crossed = crossed

    def forward(self, x):
        first, second = reversed(self.layers) if self.crossed else self.layers
        return second(Late.apply(first(x)))


@pytest.mark.parametrize("crossed", [False, True])
def test_an_arrival_is_when_the_gradients_were_there_not_when_ddp_called(crossed):
    # DDP that looks for unused parameters keeps its first buckets: in reverse order of
    # registration, and here, with 1 MiB each, one per layer.
    watched = Watched(Crossed(crossed), find_unused_parameters=True, bucket_cap_mb=1)
    for _ in range(2):
        watched.train(torch.randn(2, 512))

        first_s, second_s = watched.arrivals_s[-1]
        assert watched.called_s[0] <= watched.called_s[1]
        if crossed:
            assert first_s >= second_s + LATE_S
            assert watched.called_s[1] >= second_s + LATE_S, "the call waited for bucket 0"
        else:
            assert second_s >= first_s + LATE_S


@pytest.mark.parametrize("crossed", [False, True])
def test_a_bucket_arrives_with_the_last_of_its_gradients(crossed):
    watched = Watched(Crossed(crossed, width=8), find_unused_parameters=True)
    for _ in range(2):
        before_s = time.monotonic()
        watched.train(torch.randn(2, 8))

        assert before_s + LATE_S <= watched.arrivals_s[-1][0] < watched.called_s[0]


@pytest.mark.parametrize(
    "ddp_arguments",
    [
        {},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True},
        {"static_graph": True, "gradient_as_bucket_view": True},
    ],
    ids=str,
)
def test_every_iteration_reports_the_same_places(ddp_arguments):
    plain, watched = pair(lambda: mlp(128, 30), bucket_cap_mb=0.5, **ddp_arguments)
    for i in range(5):
        train((plain, watched), 1)

        assert_equal_gradients(plain, watched)
        assert watched.record.take() == pytest.approx(WHOLE)
        assert len(watched.arrivals_s) == i + 1
        arrivals_s = watched.arrivals_s[-1]
        for arrival_s, called_s in zip(arrivals_s, watched.called_s, strict=True):
            assert watched.record.times_s[-4] < arrival_s < called_s, "after forward"
    # DDP has rebuilt the buckets, or begun with several.
    assert len(arrivals_s) >= 2
    assert arrivals_s[0] < watched.record.times_s[-1], "in the midst of backward"
    assert watched.record.times_s == sorted(watched.record.times_s)


@pytest.mark.parametrize(("layers", "labels"), [(1, [2 / 3]), (2, [1 / 2, 2 / 3, 5 / 6])])
def test_a_small_model_reports_what_it_has(layers, labels):
    watched = Watched(mlp(layers=layers))
    train([watched], 2)
    assert watched.record.heard == pytest.approx(2 * [START, FORWARD, *labels])


def test_accumulation_is_one_iteration():
    plain, watched = pair(mlp)
    for _ in range(3):
        for model in (plain, watched):
            model.ddp.zero_grad()
            with model.ddp.no_sync():
                train([model], 2)
        assert watched.record.take() == [START]
        assert len(watched.arrivals_s) == len(plain.arrivals_s), "nothing is synchronised"
        started_s = time.monotonic()

        train((plain, watched), 1)

        assert watched.record.take() == pytest.approx(WHOLE[1:])
        assert min(watched.arrivals_s[-1]) > started_s
        assert_equal_gradients(plain, watched)
        plain.arrivals_s.append(())


def test_a_gradient_of_an_earlier_pass_is_no_arrival():
    """A parameter that only an accumulating pass uses is ready when DDP says so."""
    x = torch.ones(2, 512)
    watched = Watched(Branches(512), find_unused_parameters=True, bucket_cap_mb=1)
    with watched.ddp.no_sync():
        watched.ddp(x, 0).sum().backward()
    before_s = time.monotonic()
    watched.ddp(x, 1).sum().backward()

    assert len(watched.arrivals_s[-1]) == 3, "each layer is a bucket"
    assert min(watched.arrivals_s[-1]) > before_s


def test_evaluation_reports_nothing():
    plain, watched = pair(mlp)
    train((plain, watched), 2)
    watched.record.take()
    x = batch("mlp", 0, 0)

    watched.ddp.eval()
    watched.ddp(x)
    watched.ddp.train()
    with torch.no_grad():
        watched.ddp(x)
    with torch.inference_mode():
        watched.ddp(x)

    assert watched.record.take() == []
    train((plain, watched), 1)
    assert watched.record.take() == pytest.approx(WHOLE)
    assert_equal_gradients(plain, watched)


def test_evaluation_within_an_iteration_changes_nothing():
    plain, watched = pair(mlp)
    train((plain, watched), 1)
    watched.record.take()
    x = batch("mlp", 0, 1)
    losses = [model.ddp(x).square().sum() for model in (plain, watched)]
    with torch.no_grad():
        watched.ddp(x)
    for loss in losses:
        loss.backward()

    assert watched.record.take() == pytest.approx(WHOLE)
    assert_equal_gradients(plain, watched)


def test_training_in_evaluation_mode_has_arrivals_all_the_same():
    """Fine-tuning with frozen statistics does that."""
    plain, watched = pair(ConvBatchNorm)
    for model in (plain, watched):
        model.ddp.eval()
    before_s = time.monotonic()
    train((plain, watched), 2, "conv")

    assert watched.record.take() == []
    assert_equal_gradients(plain, watched)
    (arrival_s,) = watched.arrivals_s[-1]
    assert before_s < arrival_s < watched.called_s[0]


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


class Branches(nn.Module):
    """Uses one of two layers."""

    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(3)])

    def forward(self, x, which=0):
        return Late.apply(self.layers[2](self.layers[which](x)))


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


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x):
        y = self.body(x)
        if bool(x.isnan().any()):
            raise ArithmeticError("not a number")
        return y


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


class TwoWrappers(nn.Module):
    """A model with parts in DDP wrappers of their own."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Watched(mlp()).ddp for _ in range(2)])

    def forward(self, x):
        return self.parts[1](self.parts[0](x))


def test_wrappers_in_one_model_are_watched_apart():
    watched = [Watched(mlp()) for _ in range(2)]
    plain = [Watched(copy.deepcopy(model.ddp.module), watch=False) for model in watched]
    for i in range(3):
        x = batch("mlp", 0, i)
        for first, second in (plain, watched):
            second.ddp(first.ddp(x)).square().sum().backward()
    for a, b in zip(plain, watched, strict=True):
        assert_equal_gradients(a, b)
        assert b.record.take() == pytest.approx(3 * WHOLE)
        assert len(b.arrivals_s) == 3


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


def test_copies_and_pickles_of_the_model_carry_no_callbacks():
    watched = Watched(mlp())
    train([watched], 1)
    watched.record.take()
    stream, weights = io.BytesIO(), io.BytesIO()
    watched.ddp._comm_hooks.clear()  # DDP pickles our recording hook, which cannot be
    torch.save(watched.ddp, stream)
    torch.save(watched.ddp.state_dict(), weights)
    stream.seek(0)
    weights.seek(0)

    for other in (copy.deepcopy(watched.ddp), torch.load(stream, weights_only=False)):
        assert torch.equal(other.module[0].weight, watched.ddp.module[0].weight)
        other(batch("mlp", 0, 0)).sum().backward()
        assert watched.record.take() == []
        Layers(other, record := Record())
        other(batch("mlp", 0, 0)).sum().backward()
        assert record.heard == pytest.approx(WHOLE)
    watched.ddp.load_state_dict(torch.load(weights, weights_only=True))
    train([watched], 1)
    assert watched.record.take() == pytest.approx(WHOLE)


class Faulty(Record):
    """Raises when it hears `fault`."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def start(self, at_s):
        super().start(at_s)
        self.check()

    def edge(self, fraction, at_s):
        super().edge(fraction, at_s)
        self.check()

    def check(self):
        if self.heard[-1] == pytest.approx(self.fault):
            raise ConnectionError("the listener is gone")


@pytest.mark.parametrize("fault", WHOLE)
def test_a_failing_listener_is_left_alone_with_one_warning(fault, caplog):
    plain, watched = pair(mlp, Faulty(fault))
    with caplog.at_level(logging.WARNING, "patallreduce"):
        train((plain, watched), 3)

    assert_equal_gradients(plain, watched)
    assert watched.record.heard == pytest.approx(WHOLE[: WHOLE.index(fault) + 1])
    assert [r.name for r in caplog.records] == ["patallreduce"]
    assert "training goes on" in caplog.text
    assert "the listener is gone" in caplog.text
    assert_no_hooks(watched.ddp)
    assert len(watched.arrivals_s) == 3


def test_an_interrupt_in_a_listener_is_not_swallowed():
    class Interrupted(Record):
        def start(self, at_s):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train([Watched(mlp(), Interrupted())], 1)


def test_remove_leaves_nothing_and_may_be_repeated():
    plain, watched = pair(mlp)
    train((plain, watched), 1)
    watched.record.take()
    watched.layers.remove()
    watched.layers.remove()

    assert_no_hooks(watched.ddp)
    before_s = time.monotonic()
    train((plain, watched), 2)
    assert watched.record.take() == []
    assert_equal_gradients(plain, watched)
    assert watched.arrivals_s[-1][0] > before_s, "the time of the call"
    assert_no_hooks(watched.ddp)


def test_remove_between_forward_and_backward():
    watched = Watched(mlp())
    loss = watched.ddp(batch("mlp", 0, 0)).sum()
    watched.layers.remove()
    loss.backward()
    assert watched.record.heard == [START, pytest.approx(FORWARD)]


def test_hooks_of_others_stay():
    watched = Watched(mlp())
    calls = []
    watched.ddp.register_forward_hook(lambda *_: calls.append("module"))
    watched.ddp.module[0].weight.register_post_accumulate_grad_hook(
        lambda _: calls.append("parameter")
    )
    watched.layers.remove()
    train([watched], 1)
    assert calls == ["module", "parameter"]


def test_callbacks_do_not_keep_the_model_nor_need_their_owner():
    ddp = DistributedDataParallel(mlp())
    layers = Layers(ddp, record := Record())
    gone, weight = weakref.ref(ddp), weakref.ref(ddp.module[0].weight)
    owner = weakref.ref(layers)
    del layers
    gc.collect()
    ddp(batch("mlp", 0, 0)).sum().backward()
    assert record.heard == pytest.approx(WHOLE)

    layers = owner()
    del ddp
    gc.collect()
    assert gone() is None
    assert weight() is None
    layers.remove()
    del layers
    gc.collect()
    assert owner() is None


def test_an_arrival_not_noted_in_order_is_the_time_of_the_call():
    """Attached in the middle of an iteration, or an iteration that failed before."""
    watched = Watched(mlp())
    parameters = list(watched.ddp.parameters())
    before_s = time.monotonic()
    assert watched.layers.bucket(1, parameters, False) is None
    arrivals_s = watched.layers.bucket(2, [], True)
    assert len(arrivals_s) == 3
    assert all(before_s <= arrival_s <= time.monotonic() for arrival_s in arrivals_s)
    assert watched.layers.bucket(0, parameters, False) is None
    assert watched.layers.bucket(0, parameters, False) is None, "begun anew"
    assert len(watched.layers.bucket(1, parameters, True)) == 2


def test_only_a_ddp_model_has_layers_to_watch():
    with pytest.raises(TypeError, match="expected a DistributedDataParallel, got Sequential"):
        Layers(mlp(), Record())
    compiled = torch.compile(DistributedDataParallel(mlp()), backend="eager")
    with pytest.raises(TypeError, match=r"before torch\.compile"):
        Layers(compiled, Record())


PASSES = ["train", "accumulate", "evaluate", "no gradient", "forward alone", "forward fails"]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(passes=st.lists(st.sampled_from(PASSES), max_size=12))
def test_whatever_the_loop_does_labels_rise_and_iterations_start_once(passes):
    plain, watched = pair(Fragile)
    x = torch.ones(2, 128)
    for kind in passes:
        starts_before = watched.layers._began
        for model in (plain, watched):
            run_pass(model, kind, x)
        heard = watched.record.take()
        due = [] if starts_before else [START]
        if kind in {"evaluate", "no gradient"}:
            assert heard == []
        elif kind == "accumulate":
            assert heard in ([START], due)
        elif kind == "train":
            # After a forward pass alone the label of forward has been reported already.
            assert heard[-3:] == pytest.approx(WHOLE[2:])
            assert heard[:-3] in ([], [START], [START, FORWARD], [FORWARD])
        labels = [-1.0 if what == START else what for what in heard]
        assert labels == sorted(set(labels))
    train((plain, watched), 1)
    assert_equal_gradients(plain, watched)


def run_pass(model, kind, x):
    if kind == "train":
        model.train(x)
    elif kind == "accumulate":
        with model.ddp.no_sync():
            model.train(x)
    elif kind == "evaluate":
        model.ddp.eval()
        model.ddp(x)
        model.ddp.train()
    elif kind == "no gradient":
        with torch.no_grad():
            model.ddp(x)
    elif kind == "forward alone":
        model.ddp(x)
    else:
        with pytest.raises(ArithmeticError):
            model.ddp(x * torch.nan)
