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
    for name in ("PATALLREDUCE_WITH_CUDA", "PATALLREDUCE_NVCC", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.delenv(name, raising=False)
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


def machine_code(*numbers):
    return [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]


def ptx(number):
    return f"-gencode=arch=compute_{number},code=compute_{number}"


def gpus(monkeypatch, tmp_path, text):
    """As nvidia-smi tells them; None: there is none."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    if text is not None:
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{text}'\n")
        (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin")


@pytest.mark.parametrize(
    ("here", "compiled", "said"),
    [
        (None, [], "compute_70 (PTX, for later ones) by nvcc 12.8"),
        ("no devices were found\n", [], "compute_70 (PTX, for later ones) by nvcc 12.8"),
        ("9.0\n8.0\n9.0\n", [80, 90], "sm_80 sm_90 compute_70 (PTX, for later ones) by nvcc 12.8"),
        ("12.1\n5.2\n", [], "compute_70 (PTX, for later ones) by nvcc 12.8"),
    ],
)
def test_for_the_gpus_of_this_machine_and_ptx_for_others(
    setup, nvcc, monkeypatch, tmp_path, here, compiled, said
):
    gpus(monkeypatch, tmp_path, here)

    assert setup()["architectures"](nvcc) == (said, [*machine_code(*compiled), ptx(70)])


@pytest.mark.parametrize("asked", ["8.0;9.0+PTX", "8.0 9.0+PTX", " 9.0+PTX ; 8.0 "])
def test_for_what_torchs_list_says(setup, nvcc, monkeypatch, tmp_path, asked):
    gpus(monkeypatch, tmp_path, "7.5\n")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", asked)

    built_for, targets = setup()["architectures"](nvcc)

    assert targets == [*machine_code(80, 90), ptx(90)]
    assert built_for == "sm_80 sm_90 compute_90 (PTX, for later ones) by nvcc 12.8"


@pytest.mark.parametrize("asked", ["Hopper", "8.0;6.1", "13.0", "8.0,9.0"])
def test_a_list_that_says_something_else_is_refused(setup, nvcc, monkeypatch, asked):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", asked)

    with pytest.raises(SystemExit, match=r"TORCH_CUDA_ARCH_LIST: expected .* of 7\.0 7\.2 .*, got"):
        setup()["architectures"](nvcc)


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
