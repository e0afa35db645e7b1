"""The command line: `python -m patallreduce <command>`."""

from __future__ import annotations

import argparse

from patallreduce.commands import decide, info, postmortem, records, schedule, simulate, tune


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m patallreduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in (decide, info, postmortem, records, schedule, simulate, tune):
        command.add(commands)
    options = parser.parse_args()
    try:
        said = options.run(options)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.exit(2, f"{parser.prog} {options.command}: error: {error}\n")
    if said:
        print(said)


if __name__ == "__main__":
    main()
