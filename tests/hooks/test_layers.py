"""What the layer callbacks report; in a group of one."""

import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.hooks.models import ConvBatchNorm, batch, mlp
from tests.hooks.watching import (
    FORWARD,
    LATE_S,
    START,
    WHOLE,
    Branches,
    Fragile,
    Late,
    Watched,
    assert_equal_gradients,
    pair,
    train,
)

pytestmark = pytest.mark.usefixtures("group_of_one")


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


def test_the_mode_is_the_inner_modules():
    """Lightning validates with the inner module, and leaves the wrapper in evaluation mode."""
    plain, watched = pair(mlp)
    watched.ddp.eval()
    watched.ddp.module.train()
    train((plain, watched), 1)
    assert watched.record.take() == pytest.approx(WHOLE)

    watched.ddp.train()
    watched.ddp.module.eval()
    watched.ddp(batch("mlp", 0, 0))
    assert watched.record.take() == []


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


PASSES = ["train", "accumulate", "evaluate", "no gradient", "forward alone", "forward fails"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
