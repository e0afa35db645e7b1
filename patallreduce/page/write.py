"""The page as a file: the parts in `files`, plotly's JavaScript and the data, put together."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from patallreduce.page import moments
from patallreduce.page.model import model_data
from patallreduce.records.iterations import Iteration

_SCRIPTS = ("numbers.js", "charts.js", "timeline.js", "page.js")


def write_page(path: str | Path, models: Sequence[Sequence[Iteration]], *, title: str) -> None:
    """Write a page on a run, and the folder it belongs into.

    Args:
        path: File to write.
        models: Of each model its iterations, at least one, in order.
        title: Of the page.

    Raises:
        ValueError: A model's iterations are not in order, or not all of the same ranks.
        ModuleNotFoundError: plotly is not installed.
    """
    library = _library()
    room = moments.ROOM // max(1, len(models))
    data = [_in_script(model_data(iterations, room=room)) for iterations in models]
    parts = files("patallreduce.page") / "files"
    page = Template((parts / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        style=(parts / "page.css").read_text(encoding="utf-8"),
        library=library,
        models="\n".join(
            f'<script type="application/json" class="model">{d}</script>' for d in data
        ),
        script="\n".join((parts / name).read_text(encoding="utf-8") for name in _SCRIPTS),
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(page, encoding="utf-8")


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a report needs plotly: pip install 'patallreduce[report]' ({error})"
        ) from error
    return str(get_plotlyjs())


def _in_script(data: dict[str, Any]) -> str:
    # An algorithm's name may hold anything, also what would end the script.
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")
