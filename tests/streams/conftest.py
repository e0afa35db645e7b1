"""GPUs and NCCL played on the processor (tests/cuda/played_streams.h, played_nccl.cpp)."""

import subprocess
from pathlib import Path

import pytest

from tests.cuda.conftest import play_fixture  # noqa: F401 (the fixture `play`)
from tests.streams.ranks import PlayedLibraries, Ranks

HERE = Path(__file__).parent


@pytest.fixture(name="libraries", scope="session")
def libraries_fixture(play, tmp_path_factory):
    nccl = tmp_path_factory.mktemp("played") / "nccl.so"
    core = f"-I{HERE.parents[1] / 'csrc'}"
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", core]
    source = str(HERE / "played_nccl.cpp")
    subprocess.run(["g++", *options, "-o", str(nccl), source], check=True, timeout=120)
    return PlayedLibraries(play("g++"), str(nccl))


@pytest.fixture(name="ranks_of", scope="session")
def ranks_of_fixture(libraries):
    """`ranks_of(8)`: eight ranks, kept for the session. Tests that break them make their own."""
    kept = {}

    def ranks_of(count):
        if count not in kept:
            kept[count] = Ranks(libraries, count)
        return kept[count]

    yield ranks_of
    for ranks in kept.values():
        ranks.close()
    assert libraries.count() == 0, "streams, events or memory are left"
