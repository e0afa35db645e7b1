"""Tables for a terminal: drawn by rich where it is installed, plain lines elsewhere.

Without colours and without a final line end; a heading may have two lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO


def text_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()
) -> str:
    """Return rows of cells as a table, aligned to the right but for the columns in `left`."""
    try:
        return _rich_table(headings, rows, left)
    except ImportError:
        return _plain_table(headings, rows, left)


def _rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for n, heading in enumerate(headings):
        table.add_column(heading, justify="left" if n in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    wider_than_any = 1_000_000  # rich would cut the cells of a wider table
    console = Console(file=StringIO(), width=wider_than_any, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines() if line.strip())


def _plain_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]
) -> str:
    upper, lower = zip(*(heading.partition("\n")[::2] for heading in headings), strict=True)
    heads = [list(upper), list(lower)] if any(lower) else [list(upper)]
    lines = [*heads, *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join(
            cell.ljust(width) if n in left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = "-" * max(map(len, texts))
    return "\n".join([*texts[: len(heads)], rule, *texts[len(heads) :]])
