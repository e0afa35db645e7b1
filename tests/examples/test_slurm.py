"""The script for Slurm, submitted to a cluster of two emulated nodes."""

import os
import stat
import sys
import time
from pathlib import Path

import pytest

from patallreduce.records import postmortem

from .hosts import INTERFACE
from .slurm_cluster import SlurmCluster, lacking_slurm

LONGEST_JOB_S = 200
# As a user would set it up: torchrun on the PATH, and the interface between the nodes named.
SETTINGS = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "RANKS_PER_NODE": "2",
    "PATALLREDUCE_SOCKET_IFNAME": INTERFACE,
    "GLOO_SOCKET_IFNAME": INTERFACE,
}
ENDLESS = "import time; print('started', flush=True); time.sleep(1000)"
pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture(name="cluster", scope="module")
def cluster_fixture(tmp_path_factory):
    if lack := lacking_slurm():
        pytest.skip(lack)
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(name="submit")
def submit_fixture(cluster, examples, tmp_path):
    def submit(*command):
        script = examples / "clusters" / "slurm.sbatch"
        options = f"--parsable --chdir {tmp_path} --cpus-per-task 2"
        line = f"cd {tmp_path} && sbatch {options} {script} {' '.join(map(str, command))}"
        return cluster.run(line, SETTINGS).strip()

    return submit


def test_the_slow_rank_of_a_job_is_named(cluster, submit, examples, tmp_path):
    job = submit(examples / "straggler.py")
    ended = cluster.wait_for(job, LONGEST_JOB_S)
    printed = (tmp_path / f"train-{job}.out").read_text()
    assert ended == "COMPLETED", printed
    assert "rank 2 is late by" in printed
    assert "of 4 ranks" in printed
    assert "Traceback" not in printed
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"train-{job}.out", "run.jsonl"}  # no secret, and no empty folder


def test_records_of_a_job_that_hangs_stay_without_its_secret(cluster, submit, examples, tmp_path):
    job = submit(examples / "hang.py")
    cluster.wait_for(job, LONGEST_JOB_S)
    folder = tmp_path / f"postmortem-{job}"
    assert "waited for rank 1" in postmortem.explain(postmortem.load(folder))
    assert not (folder / "secret").exists()


def test_a_cancelled_job_takes_its_secret_along(cluster, submit, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    job = submit(script)
    output = tmp_path / f"train-{job}.out"
    until_s = time.monotonic() + LONGEST_JOB_S
    while not (output.exists() and "started" in output.read_text()):
        assert time.monotonic() < until_s, cluster.logs()
        time.sleep(0.1)
    secret = tmp_path / f"postmortem-{job}" / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    cluster.run(f"scancel {job}")
    assert cluster.wait_for(job, LONGEST_JOB_S) == "CANCELLED"
    assert not secret.parent.exists()
