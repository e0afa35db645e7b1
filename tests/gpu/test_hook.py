"""Training whose parameters pose as a GPU's: in processes, through pinned memory over UCX."""

from unittest import mock

import pytest
import torch

import patallreduce as pat
from patallreduce.communicator.gpus import Gpus
from patallreduce.gpu import cuda
from tests.hooks.conftest import group_of_one  # noqa: F401 (a fixture)
from tests.hooks.models import assert_equal_on_all_ranks, train

ITERATIONS = 30


def losses(model, options, gpu, ddp_arguments):
    """Of a training on the processor, and of the same on the fake GPU."""

    def one(posing):
        handles = []

        def install(ddp_model):
            transport = "staged" if posing else "auto"
            handles.append(pat.register(ddp_model, timeout_s=30, transport=transport, **options))

        with (
            mock.patch.object(Gpus, "is_gpu", staticmethod(lambda device: posing)),
            mock.patch.object(cuda, "library_path", lambda: gpu),
        ):
            values, parameters = train(model, ITERATIONS, install, **ddp_arguments)
            communicator = handles[0].communicator
            assert_equal_on_all_ranks(parameters)
            assert bool(communicator.session.gpus._made) == posing
            iterations = handles[0].iterations()
            handles[0].close()
        assert all(record["finish_s"] > 0 for record in communicator.stats())
        return values, len(iterations)

    return one(False), one(True)


@pytest.mark.parametrize(
    ("model", "options", "ddp_arguments"),
    [
        ("mlp", {"algorithm": "ring"}, {"bucket_cap_mb": 0.1}),
        ("conv", {"reproducible": True}, {"gradient_as_bucket_view": True}),
        ("mlp", {"algorithm": "slt", "arrivals_s": [0.5, 0.0, 0.1]}, {"static_graph": True}),
    ],
    ids=["ring", "reproducible", "slt"],
)
def test_staged_gradients_have_the_bits_of_those_on_the_processor(
    processes, libraries, model, options, ddp_arguments
):
    options = {"monitor": False, **options}

    outcomes = processes.run(3, losses, model, options, libraries.gpu, ddp_arguments)

    for (plain, _), (staged, _) in outcomes:
        assert plain == staged


def test_iterations_of_a_model_on_a_gpu_are_recorded(processes, libraries):
    options = {"link": pat.Link(50e-6, 1e7)}

    outcomes = processes.run(2, losses, "mlp", options, libraries.gpu, {})

    for (plain, _), (staged, iterations) in outcomes:
        assert staged == pytest.approx(plain, rel=1e-5)
        assert iterations >= ITERATIONS - 2


@pytest.mark.usefixtures("group_of_one")
def test_direct_is_refused_where_ucx_has_no_cuda(libraries):
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    with (
        mock.patch.object(Gpus, "is_gpu", staticmethod(lambda device: True)),
        mock.patch.object(cuda, "library_path", lambda: libraries.gpu),
        pytest.raises(pat.TransportError, match="kinds host and cuda, got host.*'staged'"),
    ):
        pat.register(ddp, transport="ucx")


def test_ranks_as_threads_have_no_gpus():
    (communicator,) = pat.Communicator.loopback(1)
    with (
        mock.patch.object(Gpus, "is_gpu", staticmethod(lambda device: True)),
        pytest.raises(TypeError, match="expected a CPU tensor, got cpu: ranks as threads"),
    ):
        communicator.all_reduce(torch.ones(3))
    communicator.close()
