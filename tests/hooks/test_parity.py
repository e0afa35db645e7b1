"""Training with the hook is training with plain DDP, up to the rounding of a sum's order."""

import pytest
import torch

import patallreduce as pat
from tests.hooks.models import assert_equal_on_all_ranks, train

ITERATIONS = 100
USUAL = {"ring", "slt", "slt_dynamic", "prr", "reproducible"}
# Gloo and we add P float32 numbers in different orders: gradients differ by some 1e-7 of their
# size, and a hundred steps of SGD with momentum on smooth models multiply that by less than 100.
LOSS_TOLERANCE = 1e-5


def losses_with_and_without(model, algorithm, ddp_arguments):
    plain_losses, _ = train(model, ITERATIONS, lambda ddp_model: None, **ddp_arguments)
    handles = []

    def install(ddp_model):
        arrivals_s = [0.0] * (torch.distributed.get_world_size() - 1) + [0.5]
        handles.append(
            pat.register(ddp_model, algorithm=algorithm, arrivals_s=arrivals_s, timeout_s=30)
        )

    losses, parameters = train(model, ITERATIONS, install, **ddp_arguments)
    assert_equal_on_all_ranks(parameters)
    assert len(handles[0].communicator.stats()) >= ITERATIONS
    assert all(algorithm in record["call"] for record in handles[0].communicator.stats()[-10:])
    handles[0].close()
    return plain_losses, losses


# All three models with every algorithm: `make test-all`.
CASES = [
    pytest.param(model, algorithm, marks=[] if algorithm in USUAL else pytest.mark.slow)
    for model in ("mlp", "conv", "embedding")
    for algorithm in sorted(pat.algorithms())
]


@pytest.mark.parametrize(("model", "algorithm"), CASES)
def test_a_hundred_iterations(processes, model, algorithm):
    ddp_arguments = {
        "mlp": {"bucket_cap_mb": 0.1},
        "conv": {"gradient_as_bucket_view": True},
        "embedding": {"bucket_cap_mb": 0.001},
    }
    outcomes = processes.run(3, losses_with_and_without, model, algorithm, ddp_arguments[model])
    for plain_losses, losses in outcomes:
        assert losses == pytest.approx(plain_losses, rel=LOSS_TOLERANCE)
        assert losses[-1] < losses[0], "it learns"
    assert outcomes[0] == outcomes[1] == outcomes[2]
