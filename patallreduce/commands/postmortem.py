"""The command that reads what ranks left when their communicator failed."""

from __future__ import annotations

import argparse
from pathlib import Path

from patallreduce.commands import Commands
from patallreduce.records import postmortem


def add(commands: Commands) -> None:
    """Add the command to the command line; it returns what is to be printed."""
    about = "after a failure: who waited for whom, and why"
    parser = commands.add_parser("postmortem", help=about, description=about)
    parser.set_defaults(run=_run)
    parser.add_argument("folder", type=Path, help="what PATALLREDUCE_POSTMORTEM named")


def _run(options: argparse.Namespace) -> str:
    return postmortem.explain(postmortem.load(options.folder))
