"""What does one late rank cost, with plain DDP over Gloo and with patallreduce?  `make demo`.

Trains the same network with the same images twice over, in turns (A B A B), on an emulated network
where namespaces can be made and on the loopback device elsewhere. Prints one table and draws one
picture. Run it from the top of the repository.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from records import FIRST_STEADY_ITERATION, Measures, Run, Summary, measure, read_run, read_summary
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from timeline import draw

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks/ is not installed
from benchmarks.lab import Loopback, Network, available, enter_user_namespace, parse_rate

RUN_TIMEOUT_S = 300.0
EXPLANATIONS = {
    "step time": "one whole training step of the job, from the end of one step to the end of the "
    "next.\nThe figure that matters: everything below is worth only what it does to this one.",
    "average elapsed": "how long a rank's gradients are in the all-reduce, averaged over ranks.\n"
    "Early ranks must wait for the late one's gradients, so the lateness is part of it.",
    "after": "from when the last rank's gradients are ready to when the last rank has the sum.\n"
    "What the all-reduce itself costs once nobody is missing any more.",
    "late rank's own": "how long the late rank, which everybody waits for, is held up itself.\n"
    "Near zero, it goes straight on to its next step, and the whole job with it.",
    "loss, accuracy": "training loss (mean of the last 20 steps) and right answers on test images."
    "\nAlike up to rounding: both add up the same gradients, only in another order.",
}


@dataclass(frozen=True)
class Configuration:
    """One of the two things compared: its name, its folder, and what it adds to the command."""

    name: str
    folder: str
    arguments: list[str]


@dataclass(frozen=True)
class Outcome:
    """What all runs of a configuration gave; the summary is that of the last one."""

    measures: Measures
    summary: Summary
    last_run: Run


def main() -> None:
    """Run the demo."""
    options = parse_options()
    console = Console(soft_wrap=True, highlight=False)
    # Namespaces have no host names, of which c10d warns once per connection.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    plain = Configuration("plain DDP over Gloo", "plain", ["--hook", "none"])
    ours = Configuration(
        "DDP + patallreduce",
        "patallreduce",
        ["--hook", "patallreduce", "--algorithm", options.algorithm],
    )
    in_turns = [plain, ours] * options.rounds
    with make_network(options, console) as network:
        for number, configuration in enumerate(in_turns):
            console.print(f"\n[bold]run {number + 1} of {len(in_turns)}: {configuration.name}[/]")
            train(network, configuration, folder_of(options, configuration, number // 2), options)
        transfer_s = measure_transfer(
            network, read_summary(folder_of(options, plain, 0)).gradient_bytes
        )

    outcomes = {c.name: outcome_of(options, c) for c in (plain, ours)}
    picture = options.out / "timeline.png"
    draw(
        {name: outcome.last_run for name, outcome in outcomes.items()},
        picture,
        title=f"Rank {options.late_rank} computes {options.late_ms:g} ms longer in every step",
        late_rank=options.late_rank,
    )
    report(console, options, outcomes, transfer_s)
    console.print(f"\nPicture of what each rank did, and when: [bold]{picture}[/]")
    console.print(f"When each rank did what, as JSON lines: {options.out}/*/rank*.jsonl")


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", default="200mbit", help="of each rank's port, or 'loopback'")
    parser.add_argument("--late-rank", type=int, default=1, metavar="R")
    parser.add_argument("--late-ms", type=float, default=80.0, help="lateness in each step")
    parser.add_argument("--algorithm", default="auto", help="of patallreduce")
    parser.add_argument("--iterations", type=int, default=100, help="training steps per run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each configuration")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a cifar-10-batches-py folder")
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    return parser.parse_args()


def make_network(options: argparse.Namespace, console: Console) -> Network | Loopback:
    """Make the emulated network, or fall back on loopback and say why."""
    if options.rate != "loopback" and available():
        enter_user_namespace()  # starts the program again where that is needed
        console.print(
            f"Network: emulated. {options.ranks} ranks, each in a network namespace of its own "
            f"({available().how}), behind a switch port of {options.rate}/s."
        )
        return Network(options.ranks, parse_rate(options.rate))
    why = "as asked for" if options.rate == "loopback" else f"because {escape(available().reason)}"
    console.print(
        f"Network: this machine's loopback device, {why}.\n"
        "It is faster than any real network, so there is less to gain here than elsewhere."
    )
    return Loopback(options.ranks)


def folder_of(options: argparse.Namespace, configuration: Configuration, number: int) -> Path:
    """Return where a run of a configuration keeps its records."""
    folder: Path = options.out / f"{configuration.folder}-{number + 1}"
    return folder


def train(
    network: Network | Loopback,
    configuration: Configuration,
    folder: Path,
    options: argparse.Namespace,
) -> None:
    """Run the training example on every rank, showing what rank 0 says."""
    for stale in folder.glob("rank*.jsonl"):
        stale.unlink()  # of a run with more ranks than this one
    command = [
        *(sys.executable, "examples/train_cifar.py", *configuration.arguments),
        *("--late-rank", str(options.late_rank), "--late-ms", str(options.late_ms)),
        *("--iterations", str(options.iterations), "--records", str(folder)),
        *(["--data", str(options.data)] if options.data else []),
    ]
    network.run(command, timeout_s=RUN_TIMEOUT_S, show="rank0")


def measure_transfer(network: Network | Loopback, message_bytes: int) -> float:
    """Return M*beta in seconds: the median time of sending the message from rank to rank."""
    command = [sys.executable, "-m", "benchmarks.lab.point_to_point", "--bytes", str(message_bytes)]
    results = network.run(command, timeout_s=60.0)
    said = "".join(result.output for result in results)
    median_ms = re.search(r"median ([\d.]+) ms", said)
    if median_ms is None:
        raise RuntimeError(f"benchmarks.lab.point_to_point gave no median: {said!r}")
    return float(median_ms[1]) / 1e3


def outcome_of(options: argparse.Namespace, configuration: Configuration) -> Outcome:
    """Read and measure all runs of a configuration."""
    folders = [folder_of(options, configuration, number) for number in range(options.rounds)]
    runs = [read_run(folder) for folder in folders]
    measures = measure(runs, late_rank=options.late_rank)
    return Outcome(measures, read_summary(folders[-1]), runs[-1])


def report(
    console: Console,
    options: argparse.Namespace,
    outcomes: dict[str, Outcome],
    transfer_s: float,
) -> None:
    """Print the table and what is needed to understand it."""
    plain, ours = outcomes.values()
    runs = "1 run" if options.rounds == 1 else f"{options.rounds} runs, in turns,"
    table = Table(
        title=f"\nRank {options.late_rank} of {options.ranks} late by {options.late_ms:g} ms in "
        "every step",
        caption=f"medians over {runs} of {options.iterations} steps each, the first "
        f"{FIRST_STEADY_ITERATION} left out",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for heading in ["step\ntime", "average\nelapsed", "\nafter", "late\nrank's own"]:
        table.add_column(f"{heading}\nms", justify="right")
    table.add_column("\nloss", justify="right")
    table.add_column("test\naccuracy\n%", justify="right")
    for name, outcome in outcomes.items():
        table.add_row(name, *_cells(outcome))
    console.print(table, soft_wrap=False)

    gain = plain.measures.iteration_s / ours.measures.iteration_s
    bound_ms = ours.measures.late_computation_s * 1e3
    message_kb = plain.summary.gradient_bytes / 1e3
    console.print(
        f"[bold]Step time, plain over patallreduce: {gain:.2f}[/] (above 1: patallreduce is "
        "faster)\n"
        f"The late rank alone computes {bound_ms:.1f} ms per step: no all-reduce makes it less.\n"
        f"Each step all-reduces {message_kb:.0f} KB of gradients; sending them once from rank to "
        f"rank\ntakes {transfer_s * 1e3:.1f} ms here (M*beta, measured on the same network).\n"
        f"Images: {escape(plain.summary.images)}.\n"
    )
    for measure_name, explanation in EXPLANATIONS.items():
        console.print(f"[bold]{measure_name:>16}[/]  " + _indented(explanation.split("\n")))


def _cells(outcome: Outcome) -> list[str]:
    m = outcome.measures
    times_s = [m.iteration_s, m.average_elapsed_s, m.after_s, m.late_elapsed_s]
    summary = outcome.summary
    return [
        *(f"{s * 1e3:.1f}" for s in times_s),
        f"{summary.loss:.3f}",
        f"{100 * summary.accuracy:.1f}",
    ]


def _indented(lines: Sequence[str]) -> str:
    return ("\n" + " " * 18).join(lines)


if __name__ == "__main__":
    main()
