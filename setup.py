"""Build of the native core: C++17 and pybind11, no torch, UCX headers only; CUDA kernels by nvcc.

The kernels are a library of their own that the core opens when it is first asked for a GPU. So the
core is the same with and without them, and needs no CUDA to be imported.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import Extension, find_packages, setup

KERNELS = "libpatallreduce_cuda"
OLDEST = 70  # compute capability times ten
BINDINGS = 4  # files
STANDARD = "csrc/standard.h"


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


def find_nvcc() -> str | None:
    """Path of nvcc: PATALLREDUCE_NVCC, else on the PATH or in CUDA's usual folder."""
    wanted = os.environ.get("PATALLREDUCE_WITH_CUDA", "")
    if wanted not in {"", "0", "1"}:
        raise SystemExit(f"PATALLREDUCE_WITH_CUDA: expected 0 or 1, got {wanted!r}")
    if wanted == "0":
        return None
    given = os.environ.get("PATALLREDUCE_NVCC")
    usual = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
    found = shutil.which(given) if given else shutil.which("nvcc") or shutil.which(usual)
    if found is None and (given or wanted == "1"):
        raise SystemExit(f"patallreduce: no nvcc: tried {given or f'the PATH and {usual}'}")
    return found


class Build(build_ext):
    """Builds the core, and extensions of .cu files by nvcc, as plain libraries."""

    def get_ext_filename(self, fullname: str) -> str:
        """`libpatallreduce_cuda.so`: no extension module, so no name that Python could import."""
        if fullname.endswith(KERNELS):
            return str(Path(*fullname.split(".")).with_suffix(".so"))
        return super().get_ext_filename(fullname)

    def build_extension(self, ext: Extension) -> None:
        """Compile and link the core, or the kernels, file by file side by side."""
        if not ext.name.endswith(KERNELS):
            ext.sources = compiled_together(ext.sources, Path(self.build_temp) / "together")
            self.compile_standard_header(ext)
            super().build_extension(ext)
            return
        nvcc = find_nvcc()
        assert nvcc
        folder = Path(self.build_temp) / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        built_for, targets = architectures(nvcc)
        position = "-Xcompiler=-fPIC,-fvisibility=hidden"
        # As -ffp-contract=off of the core: PTX too then has roundings that no assembler fuses.
        options = ["-std=c++17", "-O3", "-fmad=false", "-Icsrc", position, *targets]
        options.append(f'-DPATR_CUDA_BUILD="{built_for}"')
        if os.environ.get("PATALLREDUCE_WERROR") == "1":
            # CUDA 12 warns that its next version knows fewer architectures.
            options += ["-Werror=all-warnings", "-Wno-deprecated-gpu-targets"]
            options.append("-Xcompiler=-Wall,-Wextra,-Werror")

        def compile_one(source: str) -> str:
            target = folder / Path(source).with_suffix(".o").name
            subprocess.run([nvcc, *options, "-c", source, "-o", str(target)], check=True)
            return str(target)

        try:
            with ThreadPoolExecutor(build_jobs()) as pool:
                objects = list(pool.map(compile_one, ext.sources))
            library = Path(self.get_ext_fullpath(ext.name))
            library.parent.mkdir(parents=True, exist_ok=True)
            # CUDA's runtime goes in, unseen: the process may hold another one, of torch.
            hidden = "-Xlinker=--exclude-libs,ALL"
            link = ["-shared", "-cudart=static", hidden, "-Xlinker=-z,defs"]
            subprocess.run([nvcc, *link, *targets, *objects, "-o", str(library)], check=True)
        except subprocess.CalledProcessError as error:
            raise SystemExit(
                f"patallreduce: {nvcc} failed; PATALLREDUCE_WITH_CUDA=0 builds without GPU kernels"
            ) from error

    def compile_standard_header(self, ext: Extension) -> None:
        """Compile what all files include of the standard library once, if the compiler can."""
        header = Path(self.build_temp) / "standard.h"
        compiled = header.with_suffix(".h.gch")
        if not compiled.exists() or compiled.stat().st_mtime < Path(STANDARD).stat().st_mtime:
            shutil.copyfile(STANDARD, header)
            options = [
                *ext.extra_compile_args,
                "-x",
                "c++-header",
                str(header),
                "-o",
                str(compiled),
            ]
            subprocess.run([*self.compiler.compiler_so, *options], check=False)
        if compiled.exists():
            os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
            ext.extra_compile_args = [*ext.extra_compile_args, "-include", str(header)]


def compiled_together(sources: list[str], folder: Path) -> list[str]:
    """Files that include those of one folder of csrc each, the longest first.

    Most of a compiler's work is what the files of a folder share. The bindings, which take longest,
    are a few files, and what is written for one instruction set stays a file of its own.
    """
    parts: dict[str, list[str]] = {}
    for number, source in enumerate(sources):
        path = Path(source)
        name = "_".join(path.parent.parts[1:])
        if path.stem.startswith("avx"):
            name += f"_{path.stem}"
        elif name == "bindings":
            name += f"_{number % BINDINGS}"
        parts.setdefault(name, []).append(source)
    folder.mkdir(parents=True, exist_ok=True)
    lengths = {}
    for name, those in parts.items():
        file = folder / f"{name}.cpp"
        lines = [f'#include "{Path(source).relative_to("csrc").as_posix()}"\n' for source in those]
        file.write_text("".join(lines), encoding="utf-8")
        lengths[str(file)] = sum(Path(source).stat().st_size for source in those)
    return sorted(lengths, key=lambda file: ("bindings" in file, lengths[file]), reverse=True)


def build_jobs() -> int:
    """Compilers at once."""
    return int(os.environ.get("PATALLREDUCE_BUILD_JOBS", "0")) or os.cpu_count() or 1


def architectures(nvcc: str) -> tuple[str, list[str]]:
    """What to compile for: as TORCH_CUDA_ARCH_LIST says, else for the GPUs of this machine.

    Without that list, PTX of the oldest architecture is added, which any other GPU compiles when it
    first loads the kernels.

    Returns:
        A line for people, and nvcc's options.
    """
    listed = subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True, text=True)
    known = sorted({int(number) for number in re.findall(r"^sm_(\d+)$", listed.stdout, re.M)})
    known = [number for number in known if number >= OLDEST]
    if not known:
        raise SystemExit(f"patallreduce: {nvcc} knows nothing from sm_{OLDEST} on")
    asked = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    machine_code, ptx = of_list(asked, known) if asked else (of_gpus(known), [known[0]])
    told = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"release ([\d.]+)", told)
    names = [f"sm_{number}" for number in machine_code]
    names += [f"compute_{number} (PTX, for later ones)" for number in ptx]
    targets = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in machine_code]
    targets += [f"-gencode=arch=compute_{number},code=compute_{number}" for number in ptx]
    by = version.group(1) if version else "of unknown version"
    return f"{' '.join(names)} by nvcc {by}", targets


def of_list(asked: str, known: list[int]) -> tuple[list[int], list[int]]:
    """What a list like "8.0;9.0+PTX" means, as torch's own builds of extensions take it."""
    machine_code, ptx = set(), set()
    for name in re.split(r"[\s;]+", asked.strip()):
        found = re.fullmatch(r"(\d+)\.(\d)(\+PTX)?", name)
        number = int(found[1] + found[2]) if found else 0
        if found is None or number not in known:
            names = " ".join(f"{number / 10:.1f}" for number in known)
            raise SystemExit(
                f"patallreduce: TORCH_CUDA_ARCH_LIST: expected a list such as 8.0;9.0+PTX of "
                f"{names}, got {name!r} in {asked!r}"
            )
        machine_code.add(number)
        ptx.update([number] if found[3] else [])
    return sorted(machine_code), sorted(ptx)


def of_gpus(known: list[int]) -> list[int]:
    """The architectures of this machine's GPUs, as far as nvcc knows them."""
    ask = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        told = subprocess.run(ask, check=True, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    here = {int(whole + part) for whole, part in re.findall(r"^(\d+)\.(\d)$", told, re.M)}
    return sorted(here & {*known})


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

kernels = Extension(
    f"patallreduce.{KERNELS}",
    sorted(glob("csrc/**/*.cu", recursive=True)),
    depends=sorted(glob("csrc/reduction/*.h") + glob("csrc/**/*.cuh", recursive=True)),
)

ParallelCompile("PATALLREDUCE_BUILD_JOBS", default=os.cpu_count() or 1).install()
setup(
    packages=["patallreduce.hooks", *find_packages(include=["patallreduce", "patallreduce.*"])],
    package_dir={"patallreduce": "patallreduce", "patallreduce.hooks": "hooks"},
    ext_modules=[core, kernels] if find_nvcc() else [core],
    cmdclass={"build_ext": Build},
)
