"""STREAM's triad a = b + s * c, built where it is measured: triad.cpp, with the core's flags."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from patallreduce import _core

# As setup.py has them, and csrc/reduction/{avx2,avx512}.cpp.
_FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden"]
_VECTOR_FLAGS = {
    "portable": [],
    "avx2": ["-mavx2", "-mf16c"],
    "avx512": ["-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"],
}

Triad = Callable[[int, int, int, int, float], None]  # addresses of a, b, c; elements; s


def build_triad() -> Triad:
    """Compile the triad for the vector level of the core's kernels, and load it."""
    import pybind11

    includes = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
    compiler = os.environ.get("CXX", "g++").split()
    command = [*compiler, *_FLAGS, *_VECTOR_FLAGS[_core.vector_level()], *includes]
    source = Path(__file__).with_suffix(".cpp")
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/triad.so"
        subprocess.run([*command, str(source), "-o", library], check=True)
        spec = importlib.util.spec_from_file_location("triad", library)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    triad: Triad = module.triad
    return triad
