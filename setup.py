"""Build of the native core: C++17 and pybind11, no torch, UCX headers only."""

from __future__ import annotations

import os
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup


def ucx_include() -> str:
    """Find UCX's headers: PATALLREDUCE_UCX_HOME first, else the libucx wheel.

    Only headers: the libraries are opened at run time, so one build serves every UCX.
    """
    home = os.environ.get("PATALLREDUCE_UCX_HOME")
    if home:
        include = Path(home) / "include"
    else:
        import libucx

        include = Path(libucx.__file__).parent / "include"
    if not (include / "ucp" / "api" / "ucp.h").is_file():
        raise SystemExit(
            f"patallreduce: no UCX headers in {include}; install libucx-cu13 "
            "or set PATALLREDUCE_UCX_HOME to a UCX installation (1.13 or newer)"
        )
    return str(include)


warnings = ["-Wall", "-Wextra", "-Wno-unused-parameter"]
if os.environ.get("PATALLREDUCE_WERROR") == "1":
    warnings.append("-Werror")

core = Pybind11Extension(
    "patallreduce._core",
    sorted(glob("csrc/**/*.cpp", recursive=True)),
    depends=sorted(glob("csrc/**/*.h", recursive=True)),
    include_dirs=["csrc", ucx_include()],
    cxx_std=17,
    # No -march=native: the reduction kernels choose their vector code at run time.
    # -ffp-contract=off: a fused multiply-add would round differently from torch.
    extra_compile_args=["-O3", "-g1", "-pthread", "-ffp-contract=off", *warnings],
    extra_link_args=["-pthread"],
    libraries=["dl"],
)

ParallelCompile("PATALLREDUCE_BUILD_JOBS", default=os.cpu_count() or 1).install()
setup(
    packages=["patallreduce", "patallreduce.hooks"],
    package_dir={"patallreduce": "patallreduce", "patallreduce.hooks": "hooks"},
    ext_modules=[core],
    cmdclass={"build_ext": build_ext},
)
