"""What the demo says, from runs made up so that the figures are known."""

import pytest
from records import FIRST_STEADY_ITERATION, Record, Run, Summary
from report import Outcome, Scenario, comparison, introduction
from rich.console import Console

SCENARIO = Scenario(ranks=2, late_rank=1, late_ms=80.0, algorithm="slt", iterations=8)


def outcome(name: str, iteration_s: float, late_elapsed_s: float) -> Outcome:
    """Two ranks: rank 0 is ready after 20 ms, rank 1 after 100; rank 0 has the sum at 140."""
    run: Run = [
        [
            Record(n, t, t + 0.020, t + 0.140, t + 0.141, loss=1.0),
            Record(n, t, t + 0.100, t + 0.100 + late_elapsed_s, t + 0.101 + late_elapsed_s, 1.0),
        ]
        for n in range(FIRST_STEADY_ITERATION + 3)
        for t in [n * iteration_s]
    ]
    return Outcome(name, [run, run], Summary("some images", "none", 2, 582_312, 0.375, 0.825))


@pytest.fixture
def said() -> list[str]:
    """The report on an 80-column terminal, a line each, columns apart by one space."""
    console = Console(width=80)
    with console.capture() as capture:
        plain = outcome("plain DDP over Gloo", iteration_s=0.150, late_elapsed_s=0.040)
        ours = outcome("DDP + patallreduce", iteration_s=0.120, late_elapsed_s=0.002)
        console.print(introduction(SCENARIO))
        console.print(comparison(SCENARIO, plain, ours, transfer_s=0.0241))
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_the_table_holds_the_measures_in_milliseconds(said):
    # step time, average elapsed, after, late rank's own, loss, accuracy
    assert "plain DDP over Gloo 150.0 80.0 40.0 40.0 0.375 82.5" in said
    assert "DDP + patallreduce 120.0 61.0 40.0 2.0 0.375 82.5" in said


def test_the_gain_comes_with_what_it_takes_to_judge_it(said):
    text = " ".join(said)

    assert "plain over patallreduce: 1.25 (round by round: 1.25, 1.25)" in text
    assert "late rank alone computes 101.0 ms per step" in text
    assert "582 KB of gradients" in text
    assert "takes 24.1 ms, measured on the same network" in text
    assert "pat.register(ddp_model)" in text
    assert "Images: some images." in text
