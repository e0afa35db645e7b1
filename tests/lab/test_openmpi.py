from itertools import islice

import pytest

from benchmarks.lab.openmpi import openmpi_missing

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(bool(openmpi_missing()), reason=f"not installed: {openmpi_missing()}"),
]

# What the launcher runs: three ranks under mpirun, each telling who and where it is.
LAUNCHER = """
import sys
from benchmarks.lab import Network, enter_user_namespace
from benchmarks.lab.openmpi import run_openmpi
enter_user_namespace()
program = '''
import os, socket, time
names = [name for _, name in socket.if_nameindex() if name.startswith("rank")]
print(os.environ["OMPI_COMM_WORLD_RANK"], os.environ["RANK"], *names, flush=True)
time.sleep({sleep_s})
'''
with Network(3, 2e8) as network:
    run_openmpi(network, [sys.executable, "-c", program], timeout_s=20, show="all")
"""


def told(launcher):
    # mpirun may warn between them that an agent had been started before it could regroup it.
    lines = (line for line in launcher.stdout if "plm:rsh" not in line)
    return sorted(islice(lines, 3))


EXPECTED = [f"[0] {rank} {rank} rank{rank}\n" for rank in range(3)]


def test_ranks_are_in_their_own_namespaces(network_lab):
    with network_lab.start_python("-c", LAUNCHER.format(sleep_s=0)) as launcher:
        assert told(launcher) == EXPECTED
        assert launcher.wait(timeout=20) == 0


def test_nothing_is_left_after_the_launcher_is_killed(network_lab):
    with network_lab.start_python("-c", LAUNCHER.format(sleep_s=60)) as launcher:
        assert told(launcher) == EXPECTED
        launcher.kill()
        launcher.wait(timeout=10)
        assert network_lab.left_behind() == []
