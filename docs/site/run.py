"""Directive `run`: a command that is run while the site is built, with what it printed.

    ```{run}
    :picture: late.png
    :alt: What the picture shows
    python -m patallreduce simulate --ranks 4 --plot late.png
    ```

Commands run in one folder, which has the examples, so that one reads what another wrote. A command
that fails fails the build. With `picture` the file is shown instead of the text.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "shown"
LONGEST_S = 300
COLUMNS = 96  # as wide as a page


class Run(SphinxDirective):
    """Runs its content in a shell."""

    has_content = True
    option_spec: ClassVar = {"picture": directives.path, "alt": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the command with its output or its picture."""
        command = "\n".join(self.content)
        printed = self.printed_by(command)
        shown = "\n".join(line if line.startswith(" ") else f"$ {line}" for line in self.content)
        if "picture" not in self.options:
            return [console(f"{shown}\n{printed}")]
        picture = "/" + (FOLDER / self.options["picture"]).relative_to(ROOT).as_posix()
        drawn = nodes.image(uri=picture, alt=self.options["alt"])
        return [nodes.paragraph("", "", drawn), console(shown)]

    def printed_by(self, command: str) -> str:
        """Run it as a reader would, on the Python that builds the site."""
        tools = [str(Path(sys.executable).parent), os.environ["PATH"]]
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=FOLDER,
            env={**os.environ, "PATH": os.pathsep.join(tools), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        if done.returncode:
            raise self.error(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        lines = [textwrap.wrap(line, COLUMNS) or [""] for line in done.stdout.splitlines()]
        return "\n".join(part.rstrip() for parts in lines for part in parts)


def console(text: str) -> nodes.literal_block:
    """Text as a terminal shows it."""
    return nodes.literal_block(text, text, language="console")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make the folder that the commands run in; what Sphinx calls."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    examples = FOLDER / "examples"
    if not examples.is_symlink():
        examples.symlink_to(ROOT / "examples")
    app.add_directive("run", Run)
    return {"parallel_read_safe": False}
