"""Ranks with a GPU each, where GPUs and NCCL are fakes on the processor (tests/fakes)."""

import pytest

from tests.cuda.conftest import fake_gpu_fixture  # noqa: F401 (the fixture `fake_gpu`)
from tests.fakes.libraries import FakeLibraries, build_fake_nccl
from tests.gpu.ranks import Ranks


@pytest.fixture(name="libraries", scope="session")
def libraries_fixture(fake_gpu, tmp_path_factory):
    return FakeLibraries(fake_gpu("g++"), build_fake_nccl(tmp_path_factory.mktemp("fakes")))


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
