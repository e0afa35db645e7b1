"""The command line: `python -m patallreduce <command>`."""

from __future__ import annotations

import argparse

from patallreduce import records_commands, schedule_command, simulate_command
from patallreduce.info import report


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m patallreduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    info = commands.add_parser("info", help="versions, UCX, network and processor, for bug reports")
    info.set_defaults(run=lambda _: report())
    records_commands.add(commands)
    schedule_command.add(commands)
    simulate_command.add(commands)
    options = parser.parse_args()
    try:
        said = options.run(options)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.exit(2, f"{parser.prog} {options.command}: error: {error}\n")
    print(said)


if __name__ == "__main__":
    main()
