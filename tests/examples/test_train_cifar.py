"""The training example as a user runs it: under torchrun, over Gloo."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from device import choose_place
from images import load_digits
from network import PARAMETERS, build_network
from records import Run, read_run, read_summary
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from train_cifar import Training, main, parse_options

from patallreduce.clocks import HostClock

TRAINING_TIMEOUT_S = 100
PLACE = choose_place("cpu")


def train(examples: Path, *arguments: object, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """Run the example to its end; nothing of it outlives the timeout."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = ["--nproc-per-node", str(ranks), str(examples / "train_cifar.py")]
    return subprocess.run(
        [*torchrun, *script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TRAINING_TIMEOUT_S,
        check=False,
    )


def test_the_network_has_the_published_number_of_parameters():
    assert sum(p.numel() for p in build_network().parameters()) == PARAMETERS == 145_578
    assert build_network()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.slow  # two ranks of test_elastic_reproducible.py go on from a checkpoint, too
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(examples, tmp_path):
    """To the last bit, momentum and the order of the images included, across an epoch's end."""
    # 1,500 digits, 2 ranks, 250 images each per iteration: an epoch is 3 iterations.
    alike = ["--batch-size", 250]
    late_s = 0.2
    watched = ["--records", tmp_path, "--late-rank", 1, "--late-ms", 1e3 * late_s]
    whole, halves = tmp_path / "whole.pt", tmp_path / "halves.pt"
    runs = [
        train(examples, *alike, "--iterations", 5, "--checkpoint", whole, *watched),
        train(examples, *alike, "--iterations", 2, "--checkpoint", halves),
        train(examples, *alike, "--iterations", 5, "--checkpoint", halves),
    ]

    for run in runs:
        assert run.returncode == 0, run.stderr
    assert "is at iteration 2" in runs[2].stdout
    uninterrupted, resumed = (torch.load(path, weights_only=True) for path in (whole, halves))
    assert resumed["iteration"] == uninterrupted["iteration"] == 5
    for name, weights in uninterrupted["model"].items():
        assert torch.equal(weights, resumed["model"][name]), name
    for index, state in uninterrupted["optimizer"]["state"].items():
        momentum = resumed["optimizer"]["state"][index]["momentum_buffer"]
        assert torch.equal(state["momentum_buffer"], momentum)

    assert "scikit-learn's digits" in runs[0].stdout
    assert "test accuracy" in runs[0].stdout
    assert runs[0].stdout.count("images:") == 1, "only rank 0 speaks"
    assert_plausible(read_run(tmp_path), iterations=5, late_s=late_s)
    assert read_summary(tmp_path).gradient_bytes == 4 * PARAMETERS


def assert_plausible(run: Run, *, iterations: int, late_s: float) -> None:
    """Assert that both ranks recorded every iteration, rank 1 as the late one."""
    assert [early.iteration for early, _ in run] == list(range(iterations))
    for early, late in run:
        for record in (early, late):
            assert record.start_s < record.arrival_s < record.finish_s < record.end_s
        assert late.arrival_s - late.start_s >= late_s
        # Nobody can have the sum before the late rank's gradients.
        assert early.finish_s > late.arrival_s


@pytest.fixture
def group_of_one():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def options_of(monkeypatch, *arguments: object):
    monkeypatch.setattr(sys, "argv", ["train_cifar.py", *map(str, arguments)])
    return parse_options()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--late-ms", "5"], "--late-ms needs --late-rank"),
        (["--late-rank", "0", "--late-ms", "-1"], "must be 0 or more"),
        (["--late-rank", "0", "--late-ms", "nan"], "must be 0 or more"),
        (["--iterations", "0"], "must be 1 or more"),
        (["--iterations", "5", "--epochs", "1"], "not allowed with"),
        (["--hook", "other"], "invalid choice"),
        (["--device", "tpu"], "invalid choice"),
        (["--amp", "float16"], "invalid choice"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(monkeypatch, capsys, arguments, message):
    with pytest.raises(SystemExit):
        options_of(monkeypatch, *arguments)

    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--late-rank", 1, "--late-ms", 1], SystemExit, "ranks are 0 to 0"),
        (["--batch-size", 2000], ValueError, "a rank has 1500 images"),
        (["--data", "/nonexistent"], ValueError, "no such file"),
    ],
)
def test_what_the_group_or_the_images_rule_out_is_refused(monkeypatch, arguments, error, message):
    with pytest.raises(error, match=message):
        main(options_of(monkeypatch, *arguments), PLACE)


@pytest.mark.usefixtures("group_of_one")
def test_arrival_is_noted_before_any_communication_hook_runs():
    """Else the all-reduce would look shorter with one hook than with another."""
    called_s: list[float] = []

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        called_s.append(time.monotonic())
        return allreduce_hook(dist.group.WORLD, bucket)

    ddp = DistributedDataParallel(build_network())
    ddp.register_comm_hook(None, hook)
    training = Training(ddp, torch.optim.SGD(ddp.parameters()), load_digits(), HostClock())

    for iteration in range(3):  # DDP rebuilds its buckets after the first
        record = training.run_iteration(iteration, torch.arange(8))

        assert len(called_s) == iteration + 1, "one bucket holds all gradients"
        assert record.start_s < record.arrival_s <= called_s[-1] < record.finish_s


@pytest.mark.usefixtures("group_of_one")
def test_a_checkpoint_of_another_seed_is_refused(monkeypatch, tmp_path):
    arguments = ["--checkpoint", tmp_path / "seed0.pt", "--batch-size", 2]
    main(options_of(monkeypatch, *arguments, "--iterations", 1), PLACE)

    with pytest.raises(ValueError, match="made by 1 ranks with seed 0; this run has 1 ranks and"):
        main(options_of(monkeypatch, *arguments, "--iterations", 2, "--seed", 7), PLACE)


def test_records_of_unequal_length_are_refused(tmp_path):
    record = {"iteration": 0, "start_s": 0, "arrival_s": 1, "finish_s": 2, "end_s": 3, "loss": 1}
    (tmp_path / "rank0.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "rank1.jsonl").write_text("")

    with pytest.raises(ValueError, match="rank 1 recorded 0"):
        read_run(tmp_path)


@pytest.mark.usefixtures("group_of_one")
def test_amp_computes_in_the_type_asked_for(monkeypatch, tmp_path):
    """And keeps weights and gradients as they are: what is all-reduced does not change."""
    dtypes: list[torch.dtype] = []

    def watched() -> torch.nn.Sequential:
        network = build_network()
        network[-1].register_forward_hook(lambda *given: dtypes.append(given[2].dtype))
        return network

    monkeypatch.setattr("train_cifar.build_network", watched)
    arguments = ["--batch-size", 2, "--iterations", 1, "--checkpoint", tmp_path / "end.pt"]

    main(options_of(monkeypatch, *arguments, "--amp", "bfloat16"), PLACE)

    assert dtypes[0] == torch.bfloat16
    weights = torch.load(tmp_path / "end.pt", weights_only=True)["model"]
    assert {one.dtype for one in weights.values()} == {torch.float32}
