"""The command line: `python -m patallreduce <command>`."""

from __future__ import annotations

import argparse

from patallreduce.info import report


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m patallreduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("info", help="versions, UCX, network and processor, for bug reports")
    parser.parse_args()
    print(report())


if __name__ == "__main__":
    main()
