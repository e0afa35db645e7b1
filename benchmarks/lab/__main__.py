"""python -m benchmarks.lab --ranks 8 --rate 200mbit -- COMMAND: run a command once per rank."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from typing import Any

from .launch import RankFailedError, RankTimeoutError
from .namespaces import available
from .plan import end_on_sigterm, make_network

TIMEOUT_EXIT_CODE = 124  # as timeout(1) has it


class Check(argparse.Action):
    """Tell whether networks can be emulated here, and do nothing else."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Exit with 0, or with 1 and the reason."""
        print(available().reason)
        parser.exit(0 if available() else 1)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; everything after -- is the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lab",
        description="Run one command per rank, each in a network namespace of its own.",
    )
    parser.add_argument(
        "--check", action=Check, nargs=0, help="can networks be emulated here? If not, say why"
    )
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument(
        "--rate",
        default="200mbit",
        help="rate of each rank's port and direction, e.g. 200mbit; a comma-separated list gives "
        "one per rank; /4 behind it: 4 ranks share a port; then @25ms: latency between any two "
        "ports, @25ms:2: between two sites, @25ms:1:warm: connections do not begin slowly again "
        "after a pause, @25ms:1:shallow: no longer queues than without latency, @2ms:64KiB: no "
        "connection has a larger window; 'none': no namespaces, the ranks share this host",
    )
    parser.add_argument("--timeout-s", type=float, default=600.0)
    parser.add_argument("--show", choices=["all", "rank0", "none"], default="all")
    parser.add_argument("command", nargs="+", help="after --")
    return parser.parse_args()


def main() -> int:
    """Run the command; the exit code is that of the first rank that failed."""
    arguments = parse_arguments()
    end_on_sigterm()
    with (
        contextlib.suppress(KeyboardInterrupt),
        make_network(arguments.ranks, arguments.rate) as network,
    ):
        try:
            network.run(arguments.command, timeout_s=arguments.timeout_s, show=arguments.show)
            return 0
        except RankFailedError as error:
            print(error if arguments.show == "none" else str(error).split(";")[0])
            code = error.failed.exit_code
            return code if code > 0 else 128 - code
        except RankTimeoutError as error:
            print(error)
            return TIMEOUT_EXIT_CODE
    return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
