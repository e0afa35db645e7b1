"""The kernels' library as a file: what it holds and how the core finds it. Needs no GPU."""

import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from patallreduce import _core
from patallreduce.commands import info

ROOT = Path(__file__).parents[2]
KERNEL_FILES = sorted((ROOT / "csrc").rglob("*.cu"))
NVCC = os.environ.get("PATALLREDUCE_NVCC", "nvcc")
PTX, MACHINE_CODE = 1, 2


def output(*command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def device_code(library):
    """Count the pieces of device code by (PTX or machine code, architecture).

    The format is not documented: a header of 16 bytes behind a magic number, then pieces, each of
    which begins with kind, version (2 bytes each), length of its header (4), of its code (8), and
    has its architecture at byte 28. cuobjdump, where it is installed, lists the same.
    """
    found = Counter()
    content = Path(library).read_bytes()
    for start in re.finditer(re.escape(struct.pack("<IHH", 0xBA55ED50, 1, 16)), content):
        (size,) = struct.unpack_from("<Q", content, start.end())
        at, end = start.end() + 8, start.end() + 8 + size
        while at < end:
            kind, _, header, code = struct.unpack_from("<HHIQ", content, at)
            (architecture,) = struct.unpack_from("<I", content, at + 28)
            found[kind, architecture] += 1
            at += header + code
    return found


def test_every_kernel_is_there_for_what_the_library_says(library):
    path, built_for = _core.cuda_library(library)

    assert path == library
    assert re.search(r" by nvcc \d+\.\d+$", built_for)
    said = {(MACHINE_CODE, int(number)) for number in re.findall(r"sm_(\d+)", built_for)}
    said |= {(PTX, int(number)) for number in re.findall(r"compute_(\d+)", built_for)}
    found = device_code(library)
    assert said == {*found}
    assert min(found.values()) >= len(KERNEL_FILES)


def test_the_library_exports_its_interface_and_nothing_of_cudas_runtime(library):
    interface = (ROOT / "csrc/reduction/cuda_interface.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"PATR_EXPORT [\w *]*?(patr_\w+)\(", interface))

    exported = {
        line.split()[-1]
        for line in output("nm", "-D", "--defined-only", library).split("\n")
        if line
    }

    assert len(declared) == 25
    assert exported == declared


def test_nothing_is_fused(tmp_path):
    """A fused multiply-add rounds once where the CPU rounds twice; no kernel may have one."""
    if shutil.which(NVCC) is None:
        pytest.skip(f"no {NVCC} on this machine")
    options = re.findall(r'"(-fmad=false)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert options
    target = tmp_path / "sums.ptx"
    source = ROOT / "csrc" / "reduction" / "sums.cu"
    options += ["-std=c++17", "-O3", f"-I{ROOT / 'csrc'}", "-o", str(target)]
    output(NVCC, *options, "-ptx", str(source))
    ptx = target.read_text(encoding="utf-8")

    assert "mul.rn.f32" in ptx  # the scale
    assert "add.rn.f32" in ptx
    assert not re.search(r"\bfma\.|\.ftz\b", ptx)
    assert "ld.global.v4" in ptx


def test_the_core_needs_no_cuda():
    """It names no library of CUDA, and importing the package opens none of ours."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", _core.__file__))
    assert any(name.startswith("libc.so") for name in needed)
    assert not any("cuda" in name for name in needed)
    code = "import patallreduce; print(open('/proc/self/maps').read())"

    mapped = output(sys.executable, "-c", code)

    assert "_core" in mapped
    assert "libpatallreduce_cuda" not in mapped


def test_a_missing_library_is_named_with_the_way_to_get_it():
    with pytest.raises(
        _core.CudaError, match=r"cannot open /nowhere/kernels\.so.*WITH_CUDA=1"
    ) as raised:
        _core.cuda_library("/nowhere/kernels.so")

    assert raised.value.device is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no patr_cuda_interface"),
        ('extern "C" int patr_cuda_interface() { return 99; }', r"expected interface \d+, got 99"),
        ('extern "C" int patr_cuda_interface() { return 3; }', "has no patr_cuda_build"),
    ],
)
def test_another_library_is_refused(tmp_path, content, message):
    source, library = tmp_path / "other.cpp", tmp_path / "other.so"
    source.write_text(content)
    output("g++", "-shared", "-fPIC", str(source), "-o", str(library))

    with pytest.raises(_core.CudaError, match=message):
        _core.CudaReduction(str(library), 0)


def test_info_tells_of_missing_kernels(monkeypatch, tmp_path):
    monkeypatch.setattr("patallreduce.gpu.cuda.library_path", lambda: str(tmp_path / "none.so"))

    assert re.search(r"^CUDA kernels +not built \(no nvcc when installed", info.report(), re.M)


def test_info_tells_of_kernels_and_devices(library):
    report = info.report()

    assert re.search(r"^CUDA kernels +built for (sm|compute)_\d.* by nvcc \d", report, re.M)
    assert re.search(r"no usable device: \w.*$|^CUDA device 0 +\w", report, re.M)


def run_a_gpu_test(**environment):
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    case = f"{Path(__file__).parent}/test_gpu.py::test_the_device_is_described"
    return subprocess.run(
        [*command, case],
        env={**{k: v for k, v in os.environ.items() if k != "FAIL_WITHOUT_CUDA"}, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_gpu_tests_skip_without_a_gpu_unless_told_to_fail(library):
    try:
        _core.cuda_device_count(library)
    except _core.CudaError as error:
        reason = str(error)
    else:
        pytest.skip("this machine has a GPU")

    skipped, failed = run_a_gpu_test(), run_a_gpu_test(FAIL_WITHOUT_CUDA="1")

    assert skipped.returncode == 0
    assert f"no GPU: {reason}" in skipped.stdout
    assert failed.returncode == 1
    assert f"FAIL_WITHOUT_CUDA=1: no GPU: {reason}" in failed.stdout
