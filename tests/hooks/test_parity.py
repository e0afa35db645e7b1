"""Training with the hook is training with plain DDP, up to the rounding of a sum's order."""

import functools

import pytest
import torch

import patallreduce as pat
from tests.hooks.models import assert_equal_on_all_ranks, train
from tests.processes import LINK

ITERATIONS = 100
USUAL = {"ring", "slt", "slt_dynamic", "prr", "reproducible"}
# Gloo and we add P float32 numbers in different orders: gradients differ by some 1e-7 of their
# size, and a hundred steps of SGD with momentum on smooth models multiply that by less than 100.
LOSS_TOLERANCE = 1e-5


DDP_ARGUMENTS = {
    "mlp": {"bucket_cap_mb": 0.1},
    "conv": {"gradient_as_bucket_view": True},
    "embedding": {"bucket_cap_mb": 0.001},
}


def losses_without(model):
    losses, _ = train(model, ITERATIONS, lambda ddp_model: None, **DDP_ARGUMENTS[model])
    return losses


def losses_with(model, algorithm):
    handles = []

    def install(ddp_model):
        arrivals_s = [0.0] * (torch.distributed.get_world_size() - 1) + [0.5]
        handles.append(
            pat.register(
                ddp_model, algorithm=algorithm, arrivals_s=arrivals_s, timeout_s=30, link=LINK
            )
        )

    losses, parameters = train(model, ITERATIONS, install, **DDP_ARGUMENTS[model])
    assert_equal_on_all_ranks(parameters)
    assert len(handles[0].communicator.stats()) >= ITERATIONS
    assert all(algorithm in record["call"] for record in handles[0].communicator.stats()[-10:])
    handles[0].close()
    return losses


# All three models with every algorithm: `make test-all`.
CASES = [
    pytest.param(model, algorithm, marks=[] if usual else pytest.mark.slow)
    for model in ("mlp", "conv", "embedding")
    for algorithm in sorted(pat.algorithms())
    for usual in [algorithm == "slt" or (model == "mlp" and algorithm in USUAL)]
]


@pytest.fixture(name="plain_losses_of", scope="module")
def plain_losses_of_fixture(processes):
    """Of each model, trained once: with plain DDP they are the same whatever comes after."""
    return functools.cache(lambda model: processes.run(3, losses_without, model)[0])


@pytest.mark.parametrize(("model", "algorithm"), CASES)
def test_a_hundred_iterations(processes, plain_losses_of, model, algorithm):
    found = processes.run(3, losses_with, model, algorithm)
    assert found[0] == found[1] == found[2]
    assert found[0] == pytest.approx(plain_losses_of(model), rel=LOSS_TOLERANCE)
    assert found[0][-1] < found[0][0], "it learns"
