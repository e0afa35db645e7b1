"""How the layer callbacks come and go, and what they leave alone; in a group of one."""

import copy
import gc
import io
import logging
import time
import weakref

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from patallreduce.hooks.layers import Layers
from tests.hooks.models import batch, mlp
from tests.hooks.watching import (
    FORWARD,
    START,
    WHOLE,
    Record,
    Watched,
    assert_equal_gradients,
    assert_no_hooks,
    pair,
    train,
)

pytestmark = pytest.mark.usefixtures("group_of_one")


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


def test_only_a_ddp_model_has_layers_to_watch():
    with pytest.raises(TypeError, match="expected a DistributedDataParallel, got Sequential"):
        Layers(mlp(), Record())
    compiled = torch.compile(DistributedDataParallel(mlp()), backend="eager")
    with pytest.raises(TypeError, match=r"before torch\.compile"):
        Layers(compiled, Record())
