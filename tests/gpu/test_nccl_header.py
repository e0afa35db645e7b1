"""Our declarations of NCCL against its own header and library, where a wheel has brought them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# What nccl.h takes from CUDA: the type of a stream, and size_t. So no toolkit is needed.
CUDA = {
    "cuda_runtime.h": "#include <stddef.h>\ntypedef struct CUstream_st* cudaStream_t;\n",
    "cuda_fp16.h": "\n",
}
# Making an id opens a socket, which the process keeps.
MAKE_AN_ID = """
import sys
from patallreduce import _core
path, version = _core.nccl_library(sys.argv[1])
print(path, version, len(_core.nccl_unique_id(sys.argv[1]).rstrip(bytes(1))))
"""


def wheel():
    """Folder of nvidia-nccl-cu12 or -cu13, as on this interpreter's path."""
    for entry in sys.path:
        if (folder := Path(entry) / "nvidia" / "nccl").is_dir():
            return folder
    pytest.skip("no nvidia/nccl on the path: no wheel of NCCL is installed")
    return None


def test_declarations_are_those_of_nccl_h(tmp_path):
    header = wheel() / "include" / "nccl.h"
    if not header.exists():
        pytest.skip(f"no {header}")
    for name, text in CUDA.items():
        (tmp_path / name).write_text(text)
    folders = [f"-I{HERE.parents[1] / 'csrc'}", f"-I{tmp_path}", f"-I{header.parent}"]
    source = str(HERE / "nccl_header.cpp")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", *folders, source]

    compiled = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert compiled.returncode == 0, compiled.stderr


def test_the_wheels_library_makes_an_id_without_a_gpu():
    library = wheel() / "lib" / "libnccl.so.2"
    if not library.exists():
        pytest.skip(f"no {library}")
    made = subprocess.run(
        [sys.executable, "-c", MAKE_AN_ID, str(library)],
        env={"PATH": "/usr/bin:/bin", "NCCL_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert made.returncode == 0, made.stderr
    path, version, id_bytes = made.stdout.split()
    assert Path(path).resolve() == library.resolve()
    assert version.startswith("2.")
    assert 8 < int(id_bytes) <= 128
