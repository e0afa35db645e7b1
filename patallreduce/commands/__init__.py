"""The commands of `python -m patallreduce`; each module's `add` adds its own to the parser."""

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
