"""What a GPU gives: its reduction kernels, and all-reduce among ranks that share it.

    python -m benchmarks.gpu kernels --dtypes float32 bfloat16 --ops sum
    python -m benchmarks.gpu all-reduce --ranks 2 4 8 --late none 1=0.1 --out out/gpu

`python -m benchmarks.gpu_check --out out/gpu` builds, checks and times everything.
"""

from __future__ import annotations

import argparse

from . import all_reduce, kernels

MEASUREMENTS = {
    "kernels": (kernels, "reductions against a copy and torch"),
    "all-reduce": (all_reduce, "ranks on one GPU: our schedules against ncclAllReduce"),
}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; `run` is the chosen measurement."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="MEASUREMENT")
    for name, (measurement, summary) in MEASUREMENTS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=measurement.__doc__,
            formatter_class=argparse.RawTextHelpFormatter,
        )
        measurement.add_arguments(command)
    return parser.parse_args(arguments)


def main() -> None:
    """Run the chosen measurement."""
    options = parse_arguments()
    options.run(options)


if __name__ == "__main__":
    main()
