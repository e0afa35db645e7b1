"""The example as a user runs it, and the claim it makes: one fingerprint on any number of ranks."""

import json
import subprocess
import sys

import pytest


def compare(examples, out, *arguments, timeout_s=100):
    """Run the example; its results by "with leaves" and "DDP alone", and what it printed."""
    run = subprocess.run(
        [
            *(sys.executable, str(examples / "elastic_reproducible.py")),
            *("--out", str(out)),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads((out / "results.json").read_text()), run.stdout


def fingerprints(results, kind, epoch):
    found = (run["fingerprints"].get(str(epoch)) for run in results[kind].values())
    return [fingerprint for fingerprint in found if fingerprint]


def assert_reproducible(results, *, runs, epochs):
    """With leaves one fingerprint, of the resumed run too; without them several."""
    for epoch in range(epochs):
        found = fingerprints(results, "with leaves", epoch)
        assert len(found) == (runs + 1 if epoch >= epochs // 2 else runs)
        assert len(set(found)) == 1
        assert len(set(fingerprints(results, "DDP alone", epoch))) > 1
    by_epoch = {fingerprints(results, "with leaves", epoch)[0] for epoch in range(epochs)}
    assert len(by_epoch) == epochs, "weights change"


@pytest.mark.timeout(120)  # several trainings, one after the other
def test_one_fingerprint_and_a_checkpoint_of_three_ranks_goes_on_with_two(examples, tmp_path):
    few = ["--ranks", 1, 3, "--epochs", 2, "--iterations", 2, "--leaf-size", 2]
    results, said = compare(examples, tmp_path, *few, "--clip")

    assert list(results["with leaves"]) == ["1 rank", "3 ranks", "3 ranks, then 2"]
    assert_reproducible(results, runs=2, epochs=2)
    assert "3 runs, all with the same weights" in said
    assert fingerprints(results, "with leaves", 1)[0][:8] in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", 13], "13 ranks: expected 1 to 12"),
        (["--resume-on", 0], "0 ranks: expected 1 to 12"),
        (["--epochs", 1], "must be 2 or more"),
        (["--iterations", 0], "must be 1 or more"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(monkeypatch, capsys, arguments, message):
    import elastic_reproducible

    monkeypatch.setattr(sys, "argv", ["elastic_reproducible.py", *map(str, arguments)])
    with pytest.raises(SystemExit):
        elastic_reproducible.parse_options()
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--amp", "--clip"]], ids=["float32", "bfloat16 clipped"])
def test_weights_of_200_iterations(examples, tmp_path, more):
    """Ranks on permuted processes, another late in each iteration, resumed from 4 to 3 ranks."""
    length = ["--epochs", 8, "--iterations", 25, "--leaf-size", 2, "--late-ms", 10]
    results, said = compare(examples, tmp_path, *length, *more, timeout_s=900)

    print(said)
    assert list(results["with leaves"])[-1] == "4 ranks, then 3"
    assert_reproducible(results, runs=4, epochs=8)
