"""What does one late rank cost, with plain DDP over Gloo and with patallreduce?  `make demo`.

Trains the same network on the same images with either, in turns (A B A B): on an emulated network
where namespaces can be made, on the loopback device elsewhere. Prints one table and draws one
picture. Run it from the top of the repository.

The ranks are started by the command `python -m benchmarks.lab`, not by its modules: the emulated
network runs any program, and a program that is to be tried on it needs to know nothing of it.
"""

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from records import (
    FIRST_STEADY_ITERATION,
    ITERATIONS_FILE,
    count_iterations,
    read_run,
    read_summary,
)
from report import Outcome, Scenario, comparison, introduction, monitor_report
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from timeline import draw

import patallreduce as pat
from patallreduce.pictures import arrival_heat_map
from patallreduce.text.units import parse_rate

LAB = [sys.executable, "-m", "benchmarks.lab"]
LOOPBACK = "loopback"
RUN_TIMEOUT_S = 300.0
STEPS_DRAWN = 4
POLL_S = 0.2
REPORT_COLUMNS = 78
# On two quiet cores: until the first step of a run, and a step less the lateness.
START_S, STEP_S = 8.0, 0.05


@dataclass(frozen=True)
class Configuration:
    """One of the two things compared, where its records go and what it adds to the command."""

    name: str
    records: Path
    arguments: list[str]

    def folder(self, a_round: int) -> Path:
        """Return where the records of a round go."""
        return self.records.with_name(f"{self.records.name}-{a_round + 1}")


def main() -> None:
    """Run the demo."""
    # Leave through Python's own clean-up, which ends the ranks.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    options = parse_options()
    scenario = Scenario(
        options.ranks, options.late_rank, options.late_ms, options.algorithm, options.iterations
    )
    console = Console(highlight=False)
    # Namespaces have no host names, of which c10d warns once per connection.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    plain = Configuration("plain DDP over Gloo", options.out / "plain", ["--hook", "none"])
    ours = Configuration(
        "DDP + patallreduce",
        options.out / "patallreduce",
        ["--hook", "patallreduce", "--algorithm", options.algorithm],
    )
    lab_rate = choose_network(options, console)
    console.print(introduction(scenario))
    in_turns = list(itertools.product(range(options.rounds), [plain, ours]))
    console.print(f"{len(in_turns)} runs, one after the other: {duration(options)}.\n")
    for number, (a_round, configuration) in enumerate(in_turns, start=1):
        title = f"run {number} of {len(in_turns)}: {configuration.name}"
        folder = configuration.folder(a_round)
        train(configuration, folder, options, title=title, rate=lab_rate, console=console)
    message_bytes = read_summary(plain.folder(0)).gradient_bytes
    transfer_s = measure_transfer(lab_rate, message_bytes)

    before, after = outcome_of(plain, options.rounds), outcome_of(ours, options.rounds)
    picture = options.out / "timeline.png"
    draw(
        {outcome.name: outcome.runs[-1] for outcome in (before, after)},
        picture,
        title=f"Rank {options.late_rank} computes {options.late_ms:g} ms longer in every step",
        iterations=STEPS_DRAWN,
        late_rank=options.late_rank,
    )
    console.width = max(console.width, REPORT_COLUMNS)  # else tables lose digits
    console.print(comparison(scenario, before, after, transfer_s))

    iterations = pat.load_iterations(ours.folder(options.rounds - 1) / ITERATIONS_FILE)
    console.print(monitor_report(iterations))
    heat_map = options.out / "arrivals.png"
    arrival_heat_map(iterations, heat_map)
    console.print(f"\nPicture of what each rank did, and when: [bold]{picture}[/]")
    console.print(f"Picture of who was late, step by step: [bold]{heat_map}[/]")
    console.print(f"The same as numbers, one JSON line per step: {options.out}/*/rank*.jsonl")


def rate(text: str) -> str:
    """Check a rate, and keep it as it was written for the output."""
    if text != LOOPBACK:
        parse_rate(text)
    return text


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument(
        "--rate", type=rate, default="200mbit", help="of each rank's port, or 'loopback'"
    )
    parser.add_argument("--late-rank", type=int, default=1, metavar="R")
    parser.add_argument("--late-ms", type=float, default=80.0, help="lateness in each step")
    parser.add_argument("--algorithm", default="auto", help="of patallreduce")
    parser.add_argument("--iterations", type=int, default=150, help="training steps per run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each configuration")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a cifar-10-batches-py folder")
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    options = parser.parse_args()
    shortest = FIRST_STEADY_ITERATION + STEPS_DRAWN
    if options.iterations < shortest:
        parser.error(f"--iterations must be {shortest} or more")
    if not 0 <= options.late_rank < options.ranks or options.rounds < 1:
        parser.error("--late-rank must be one of the ranks, --rounds 1 or more")
    return options


def choose_network(options: argparse.Namespace, console: Console) -> str:
    """Take the emulated network, or fall back on loopback and say why; return the lab's rate."""
    check = subprocess.run([*LAB, "--check"], capture_output=True, text=True, check=False)
    if options.rate != LOOPBACK and check.returncode == 0:
        console.print(
            f"Network: emulated. {options.ranks} ranks, each in a network namespace of its own "
            f"behind a switch port of {options.rate}/s.\n"
        )
        return str(options.rate)
    why = "as asked for" if options.rate == LOOPBACK else f"because {escape(check.stdout.strip())}"
    console.print(
        f"Network: this machine's loopback device, {why}.\n"
        "It is faster than any real network, so there is less to gain here than elsewhere.\n"
    )
    return "none"


def duration(options: argparse.Namespace) -> str:
    """Say how long all runs will take."""
    run_s = START_S + options.iterations * (STEP_S + options.late_ms / 1e3)
    return f"about {max(1, round(2 * options.rounds * run_s / 60))} min"


def train(
    configuration: Configuration,
    folder: Path,
    options: argparse.Namespace,
    *,
    title: str,
    rate: str,
    console: Console,
) -> None:
    """Run the training example on every rank, showing how far it is and what rank 0 said last."""
    for stale in folder.glob("rank*.jsonl"):
        stale.unlink()  # of a run with more ranks than this one
    command = [
        *LAB,
        *("--ranks", str(options.ranks), "--rate", rate),
        *("--timeout-s", str(RUN_TIMEOUT_S), "--show", "rank0", "--"),
        *(sys.executable, "examples/train_cifar.py", *configuration.arguments),
        *("--late-rank", str(options.late_rank), "--late-ms", str(options.late_ms)),
        *("--iterations", str(options.iterations), "--records", str(folder)),
        *(["--data", str(options.data)] if options.data else []),
    ]
    if not console.is_terminal:
        console.print(title)
    with tempfile.TemporaryFile("w+") as output, progress_bar(console) as progress:
        task = progress.add_task(f"{title}, starting", total=options.iterations)
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                if done := count_iterations(folder):
                    progress.update(task, completed=done, description=title)
                time.sleep(POLL_S)
        finally:
            process.terminate()
            process.wait()
        output.seek(0)
        said = output.read().strip()
        progress.update(task, completed=count_iterations(folder), description=title)
    if process.returncode:
        raise SystemExit(f"{title} failed:\n{said}")
    console.print(f"  {said.splitlines()[-1]}")


def progress_bar(console: Console) -> Progress:
    """Show steps done and the time that is left, on a terminal."""
    columns = BarColumn(bar_width=16), MofNCompleteColumn(), TimeRemainingColumn(compact=True)
    hidden = not console.is_terminal
    return Progress(TextColumn("{task.description}"), *columns, console=console, disable=hidden)


def measure_transfer(rate: str, message_bytes: int) -> float:
    """Return M*beta in seconds: the median time of sending the message from rank to rank."""
    point_to_point = ["-m", "benchmarks.lab.point_to_point", "--bytes", str(message_bytes)]
    command = [*LAB, "--ranks", "2", "--rate", rate, "--", sys.executable, *point_to_point]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60.0, check=False)
    median_ms = re.search(r"median ([\d.]+) ms", ran.stdout)
    if median_ms is None:
        raise RuntimeError(f"benchmarks.lab.point_to_point gave no median: {ran.stdout!r}")
    return float(median_ms[1]) / 1e3


def outcome_of(configuration: Configuration, rounds: int) -> Outcome:
    """Read all runs of a configuration."""
    folders = [configuration.folder(a_round) for a_round in range(rounds)]
    runs = [read_run(folder) for folder in folders]
    return Outcome(configuration.name, runs, read_summary(folders[-1]))


if __name__ == "__main__":
    main()
