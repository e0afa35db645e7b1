"""How setup.py finds nvcc and chooses architectures; a script stands in for nvcc."""

import runpy
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parents[2]
# As of CUDA 12.8, the last major version with sm_70.
CUDA_12 = [50, 52, 60, 61, 70, 72, 75, 80, 86, 87, 89, 90, "90a", 100, "100a", 101, 120, "120a"]


@pytest.fixture(name="setup")
def setup_fixture(monkeypatch):
    """What setup.py defines, and what it would pass on."""
    passed = {}
    monkeypatch.setattr(setuptools, "setup", lambda **keywords: passed.update(keywords))
    monkeypatch.chdir(ROOT)
    for name in ("WITH_CUDA", "NVCC"):
        monkeypatch.delenv(f"PATALLREDUCE_{name}", raising=False)
    return lambda: {**runpy.run_path("setup.py"), "passed": passed}


@pytest.fixture(name="nvcc")
def nvcc_fixture(tmp_path):
    script = tmp_path / "nvcc"
    listed = "\n".join(f"sm_{number}" for number in CUDA_12)
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = --list-gpu-code ]; then echo "{listed}"\n'
        'else echo "Cuda compilation tools, release 12.8, V12.8.93"; fi\n'
    )
    script.chmod(0o755)
    return str(script)


def names(setup):
    return [extension.name for extension in setup()["passed"]["ext_modules"]]


def test_every_architecture_from_70_to_100_and_ptx_of_the_last(setup, nvcc):
    built_for, targets = setup()["architectures"](nvcc)

    numbers = [70, 72, 75, 80, 86, 87, 89, 90, 100]
    code = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    assert targets == [*code, "-gencode=arch=compute_100,code=compute_100"]
    assert built_for.startswith("sm_70 sm_72 ")
    assert built_for.endswith("by nvcc 12.8")


def test_kernels_are_built_where_nvcc_is(setup, nvcc, monkeypatch):
    monkeypatch.setenv("PATALLREDUCE_NVCC", nvcc)

    assert names(setup) == ["patallreduce._core", "patallreduce.libpatallreduce_cuda"]


def test_kernels_are_left_out_without_nvcc(setup, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))

    assert names(setup) == ["patallreduce._core"]

    monkeypatch.setenv("PATALLREDUCE_WITH_CUDA", "1")
    with pytest.raises(SystemExit, match="no nvcc: tried the PATH and"):
        setup()


def test_kernels_are_left_out_on_demand(setup, nvcc, monkeypatch):
    monkeypatch.setenv("PATALLREDUCE_NVCC", nvcc)
    monkeypatch.setenv("PATALLREDUCE_WITH_CUDA", "0")

    assert names(setup) == ["patallreduce._core"]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NVCC", "/nowhere/nvcc", "no nvcc: tried /nowhere/nvcc"),
        ("WITH_CUDA", "yes", "expected 0 or 1, got 'yes'"),
    ],
)
def test_bad_settings_are_named(setup, monkeypatch, variable, value, message):
    monkeypatch.setenv(f"PATALLREDUCE_{variable}", value)

    with pytest.raises(SystemExit, match=message):
        setup()
