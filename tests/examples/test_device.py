"""Which device a rank of the example takes."""

import os
import subprocess
import sys

import pytest
import torch
from device import choose_place


@pytest.fixture(name="gpus")
def gpus_fixture(monkeypatch):
    """`gpus(2)`: torch sees two; which one became current is noted in the list returned."""
    monkeypatch.delenv("NCCL_HOSTID", raising=False)

    def gpus(count, rank=0, ranks=1):
        current = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "set_device", current.append)
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        return current

    return gpus


def test_the_processor_needs_no_gpu(gpus):
    current = gpus(2)
    place = choose_place("cpu")

    assert (str(place.device), place.backend, place.device_ids) == ("cpu", "gloo", None)
    assert current == []


@pytest.mark.parametrize(("rank", "index"), [(0, 0), (1, 1), (3, 3)])
def test_each_rank_takes_the_gpu_of_its_number(gpus, rank, index):
    current = gpus(4, rank, ranks=4)
    place = choose_place("cuda")

    assert current == [place.device] == [torch.device("cuda", index)]
    assert place.backend == "cpu:gloo,cuda:nccl"
    assert place.device_ids == [index]
    assert "NCCL_HOSTID" not in os.environ


def test_ranks_that_share_a_gpu_look_like_hosts_of_their_own(gpus):
    hosts = []
    for rank in range(3):
        gpus(2, rank, ranks=3)
        assert choose_place("cuda").device_ids == [rank % 2]
        hosts.append(os.environ.pop("NCCL_HOSTID"))
    assert len(set(hosts)) == 3


def test_what_the_user_says_of_hosts_is_kept(gpus, monkeypatch):
    gpus(1, 1, ranks=2)
    monkeypatch.setenv("NCCL_HOSTID", "mine")
    choose_place("cuda")
    assert os.environ["NCCL_HOSTID"] == "mine"


def test_no_gpu_is_said_before_anything_else(examples):
    hidden = {"CUDA_VISIBLE_DEVICES": "", "LOCAL_RANK": "0"}
    run = subprocess.run(
        [sys.executable, str(examples / "train_cifar.py"), "--device", "cuda"],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | hidden,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == f"--device cuda: torch {torch.__version__} sees no GPU\n"
