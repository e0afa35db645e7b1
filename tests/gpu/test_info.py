"""What `python -m patallreduce info` says of NCCL and GPUs, with and without them."""

import pytest
import torch

from patallreduce import _core
from patallreduce.commands import info


@pytest.fixture(name="told")
def told_fixture(monkeypatch):
    """`told(path)`: the report's lines by name, with NCCL at `path`."""

    def told(path):
        monkeypatch.setattr("patallreduce.gpu.nccl.library_path", lambda: path)
        lines = (line.partition("  ") for line in info.report().splitlines())
        return {name: value.strip() for name, _, value in lines}

    return told


def test_nccl_is_named_with_version_and_path(libraries, told):
    assert told(libraries.nccl)["NCCL"] == f"2.27.3 at {libraries.nccl}"


def test_missing_nccl_is_no_failure(told):
    lines = told("/nonexistent/libnccl.so.2")
    assert lines["NCCL"].startswith("cannot open /nonexistent/libnccl.so.2")
    assert "UCX" in lines


def test_a_library_that_is_not_nccl_is_named(told):
    path = _core.__file__
    assert told(path)["NCCL"] == f"{path} has no ncclGetVersion; expected NCCL 2.14 or newer"


def test_maps_that_cannot_be_read_are_no_failure(monkeypatch):
    def unreadable():
        raise PermissionError(13, "Permission denied", "/proc/self/maps")

    monkeypatch.setattr("patallreduce.gpu.nccl.library_path", unreadable)
    assert "Permission denied: '/proc/self/maps'" in info.report()


def test_the_gpus_that_torch_sees_are_listed(monkeypatch, told):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda n: f"GPU of {n + 1}00 GB")
    assert told("")["GPUs that torch sees"] == "0: GPU of 100 GB, 1: GPU of 200 GB"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert told("")["GPUs that torch sees"].startswith("none")
