"""The manifest for Kubernetes: its form, its variables, and its command on two emulated pods."""

import contextlib
import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from patallreduce.communicator import environment

from .hosts import Hosts, end, lacking

LONGEST_JOB_S = 150
RELEASES = ("1.27", "1.37")  # the first with that label of a job's pods, and the newest known


@pytest.fixture(name="resources")
def resources_fixture(examples):
    with (examples / "clusters" / "kubernetes.yaml").open(encoding="utf-8") as file:
        return {resource["kind"]: resource for resource in yaml.safe_load_all(file)}


@pytest.fixture(name="pod")
def pod_fixture(resources):
    return resources["Job"]["spec"]["template"]["spec"]


@pytest.fixture(name="container")
def container_fixture(pod):
    (container,) = pod["containers"]
    return container


def test_variables_are_ones_that_are_read(container):
    names = [variable["name"] for variable in container["env"]]
    ours = [name for name in names if name.startswith("PATALLREDUCE_")]
    assert len(ours) > 1
    assert {name.removeprefix("PATALLREDUCE_") for name in ours} <= set(environment.VARIABLES)


def test_pods_find_each_other_by_their_service(resources, pod, container):
    service, job = resources["Service"], resources["Job"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    first, pods = f"{job['metadata']['name']}-0.{pod['subdomain']}", job["spec"]["completions"]
    assert f"--master-addr={first}" in container["command"]
    assert f"--nnodes={pods}" in container["command"]
    assert job["spec"]["parallelism"] == pods  # all wait for all


def test_every_volume_is_mounted_and_the_secret_is_in_one(pod, container):
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
    assert mounted["shm"] == "/dev/shm"
    (file,) = (v["value"] for v in container["env"] if v["name"].endswith("SECRET_FILE"))
    assert Path(file).parent == Path(mounted["secrets"])


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_the_api_of_kubernetes_takes_it(resources, release):
    schemas = pytest.importorskip("kubernetes_validate", reason="needs the extra schemas")
    assert set(resources) == {"Service", "Job"}
    for resource in resources.values():
        assert schemas.validate(resource, release, strict=True) == release
    wrong = copy.deepcopy(resources["Job"])
    wrong["spec"]["template"]["spec"]["subdomian"] = "train"
    with pytest.raises(schemas.ValidationError, match="subdomian"):
        schemas.validate(wrong, release, strict=True)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(LONGEST_JOB_S + 50)
def test_its_command_runs_in_two_pods(resources, pod, container, examples, tmp_path):
    """As kubelets would start it, with the secret in a folder of the test's."""
    if lack := lacking():
        pytest.skip(lack)
    (tmp_path / "patallreduce").write_text("what 32 random bytes would be in earnest\n")
    (tmp_path / "examples").symlink_to(examples)
    pods = range(resources["Job"]["spec"]["completions"])
    names = [f"{resources['Job']['metadata']['name']}-{index}" for index in pods]
    logs = [tmp_path / f"{name}.txt" for name in names]
    with contextlib.ExitStack() as started:
        # A pod's own name is the short one, the service knows the long one.
        hosts = started.enter_context(
            Hosts(tmp_path, names, [f"{name}.{pod['subdomain']}" for name in names])
        )
        processes = []
        for index in pods:
            variables = {variable["name"]: variable["value"] for variable in container["env"]}
            variables |= {"JOB_COMPLETION_INDEX": str(index), "PATH": path_of_torchrun()}
            variables["PATALLREDUCE_SECRET_FILE"] = str(tmp_path / "patallreduce")
            command = [expanded(argument, variables) for argument in container["command"]]
            output = started.enter_context(logs[index].open("w"))
            process = hosts.start(index, *command, output=output, variables=variables)
            started.callback(end, process)
            processes.append(process)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LONGEST_JOB_S)
        said = "".join(log.read_text() for log in logs)
        assert [process.returncode for process in processes] == [0] * len(pods), said
    assert "rank 2 is late by" in said
    assert "Traceback" not in said


def path_of_torchrun():
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def expanded(argument, variables):
    """With what Kubernetes puts in the place of $(NAME)."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], argument)
