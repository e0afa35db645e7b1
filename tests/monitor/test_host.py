"""How busy a host is, read from files made up as Linux writes them."""

import math

import pytest

from patallreduce import _core

QUOTA = "nr_periods {}\nnr_throttled {}\nthrottled_usec 9\n"


@pytest.fixture
def host(tmp_path):
    """Write the files; `host(name=text)` replaces some."""
    usual = {
        "proc/self/schedstat": "1000 100 7",
        "proc/self/cgroup": "0::/job\n",
        "proc/self/stat": "7 (python) x) R 1 2 3 4 5 6 10 0 50 0 0",
        "proc/stat": "cpu  100 0 100 900 50 0 0 10 0 0\ncpu0 1 2 3 4 5 6 7 8\n",
        "sys/fs/cgroup/job/cpu.stat": QUOTA.format(10, 1),
    }

    def write(files=usual):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    return write


LATER = {
    "proc/self/schedstat": "1600 500 9",
    "proc/self/stat": "7 (python) x) R 1 2 3 4 5 6 99 0 350 0 0",
    "proc/stat": "cpu  150 5 110 990 90 5 0 40 0 0\n",
}


def test_shares_are_of_what_came_since_the_sample_before(host):
    use = _core.HostUse(host())
    assert use.sample(5.0) is None
    host({**LATER, "sys/fs/cgroup/job/cpu.stat": QUOTA.format(30, 6)})

    sample = use.sample(7.0)
    assert sample["waited"] == pytest.approx(400 / 1000)
    assert sample["throttled"] == pytest.approx(5 / 20)
    assert sample["stolen"] == pytest.approx(30 / (50 + 5 + 10 + 5 + 30))
    assert sample["faults_per_s"] == pytest.approx(150)
    assert use.sample(9.0) == {"waited": 0, "throttled": 0, "stolen": 0, "faults_per_s": 0}


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/job\n", "sys/fs/cgroup/job/cpu.stat"),
        ("0::/outside/of/the/container\n", "sys/fs/cgroup/cpu.stat"),
        ("2:cpuset:/\n1:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat"),
        ("2:memory:/\n1:cpu:/elsewhere\n0::/\n", "sys/fs/cgroup/cpu/cpu.stat"),
    ],
)
def test_the_control_group_is_found(host, tmp_path, groups, file):
    host()
    (tmp_path / "sys/fs/cgroup/job/cpu.stat").unlink()
    use = _core.HostUse(host({"proc/self/cgroup": groups, file: QUOTA.format(10, 1)}))
    use.sample(0.0)
    host({file: QUOTA.format(20, 6)})

    assert use.sample(1.0)["throttled"] == pytest.approx(0.5)


@pytest.mark.parametrize("text", ["", "\n", "rubbish", "cpu", "cpu x y", "0 ("])
def test_what_is_missing_or_malformed_is_not_known(host, text):
    files = [*LATER, "proc/self/cgroup", "sys/fs/cgroup/job/cpu.stat"]
    use = _core.HostUse(host(dict.fromkeys(files, text)))
    use.sample(0.0)

    assert all(math.isnan(value) for value in use.sample(1.0).values())


def test_without_files_nothing_is_known(tmp_path):
    use = _core.HostUse(str(tmp_path))
    use.sample(0.0)

    assert all(math.isnan(value) for value in use.sample(1.0).values())


def test_counters_that_go_back_are_not_believed(host):
    host(LATER)
    use = _core.HostUse(host(LATER))
    use.sample(0.0)
    host()
    sample = use.sample(1.0)

    assert math.isnan(sample["waited"])
    assert math.isnan(sample["stolen"])
    assert math.isnan(sample["faults_per_s"])
    assert use.sample(0.5) is None  # nor is a clock that does
