"""`info --network`: what the ranks of a job measure, on rank 0's terminal and in its file."""

import pytest

import patallreduce as pat
from tests.programs import run_module


@pytest.mark.long
def test_a_jobs_network_is_measured_printed_and_kept(tmp_path):
    path = tmp_path / "network.json"
    ended = run_module(
        "torch.distributed.run",
        *("--standalone", "--nproc-per-node", "3", "-m", "patallreduce"),
        *("info", "--network", "--save", str(path)),
        limit_s=120,
    )
    assert ended.returncode == 0, ended.stdout
    network = pat.Network.load(path)
    assert len(network.links) == 3
    said = ended.stdout.splitlines()
    assert said[-1] == str(path)
    assert "\n".join(said).count("rank 0") == 1, "one rank says it"
    assert str(network) in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--network",), "expected RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"),
        (("--save", "network.json"), "--save: expected --network"),
    ],
)
def test_what_cannot_be_measured_is_said(command, arguments, complaint):
    status, said = command("info", *arguments)
    assert status == 2
    assert complaint in said
