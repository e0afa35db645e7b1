"""What does one late rank cost, with plain DDP over Gloo and with patallreduce?  `make demo`.

Trains the same network on the same images with either, in turns (A B A B): on an emulated network
where namespaces can be made, on the loopback device elsewhere. Prints one table and draws one
picture. Run it from the top of the repository.
"""

import argparse
import itertools
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from records import FIRST_STEADY_ITERATION, ITERATIONS_FILE, read_run, read_summary
from report import Outcome, Scenario, comparison, introduction, monitor_report
from rich.console import Console
from rich.markup import escape
from timeline import draw

import patallreduce as pat
from patallreduce.pictures import arrival_heat_map

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks/ is not installed
from benchmarks.lab import Loopback, Network, available, enter_user_namespace, parse_rate

RUN_TIMEOUT_S = 300.0
STEPS_DRAWN = 4


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
    with make_network(options, console) as network:
        console.print(introduction(scenario))
        in_turns = list(itertools.product(range(options.rounds), [plain, ours]))
        for number, (a_round, configuration) in enumerate(in_turns, start=1):
            console.print(f"\n[bold]run {number} of {len(in_turns)}: {configuration.name}[/]")
            train(network, configuration, configuration.folder(a_round), options)
        message_bytes = read_summary(plain.folder(0)).gradient_bytes
        transfer_s = measure_transfer(network, message_bytes)

    before, after = outcome_of(plain, options.rounds), outcome_of(ours, options.rounds)
    picture = options.out / "timeline.png"
    draw(
        {outcome.name: outcome.runs[-1] for outcome in (before, after)},
        picture,
        title=f"Rank {options.late_rank} computes {options.late_ms:g} ms longer in every step",
        iterations=STEPS_DRAWN,
        late_rank=options.late_rank,
    )
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
    if text != "loopback":
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


def make_network(options: argparse.Namespace, console: Console) -> Network | Loopback:
    """Make the emulated network, or fall back on loopback and say why."""
    if options.rate != "loopback" and available():
        enter_user_namespace()  # starts the program again where that is needed
        console.print(
            f"Network: emulated. {options.ranks} ranks, each in a network namespace of its own "
            f"behind a switch port of {options.rate}/s.\n"
        )
        return Network(options.ranks, parse_rate(options.rate))
    why = "as asked for" if options.rate == "loopback" else f"because {escape(available().reason)}"
    console.print(
        f"Network: this machine's loopback device, {why}.\n"
        "It is faster than any real network, so there is less to gain here than elsewhere.\n"
    )
    return Loopback(options.ranks)


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


def outcome_of(configuration: Configuration, rounds: int) -> Outcome:
    """Read all runs of a configuration."""
    folders = [configuration.folder(a_round) for a_round in range(rounds)]
    runs = [read_run(folder) for folder in folders]
    return Outcome(configuration.name, runs, read_summary(folders[-1]))


if __name__ == "__main__":
    main()
