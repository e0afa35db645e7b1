"""The commands that read a file of iterations: `plot`, `report`, `stragglers` and `trace`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from patallreduce.commands import Commands
from patallreduce.records.files import load_iterations
from patallreduce.records.iterations import Iteration
from patallreduce.records.stragglers import straggler_report
from patallreduce.records.trace import write_trace

_Models = dict[int, list[Iteration]]
_Run = Callable[[argparse.Namespace, _Models], str]

KINDS = ("heat-map", "predicted", "timeline")


def add(commands: Commands) -> None:
    """Add the commands to the command line; each returns what is to be printed."""
    plot = _command(commands, "plot", _plot, "draw iterations: who was late when, was it foreseen")
    plot.add_argument("--kind", choices=KINDS, default="heat-map")
    plot.add_argument("--last", type=int, default=4, help="iterations in a timeline (default 4)")
    plot.add_argument("--out", type=Path, default=Path("out/arrivals.png"), help="png, svg or pdf")

    report = _command(commands, "report", _report, "write a run as one HTML page to look into")
    report.add_argument("--out", type=Path, default=Path("out/report.html"))

    stragglers = _command(
        commands, "stragglers", _stragglers, "which rank is late, since when, why"
    )
    late = stragglers.add_mutually_exclusive_group()
    late.add_argument("--threshold-ms", type=float, help="later than this is late")
    late.add_argument("--ratio", type=float, help="the same, as a part of the computation")

    trace = _command(commands, "trace", _trace, "write a trace for ui.perfetto.dev")
    trace.add_argument("--out", type=Path, default=Path("out/trace.json"))


def _command(commands: Commands, name: str, run: _Run, about: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=about, description=about)
    parser.set_defaults(run=partial(_on_records, run))
    parser.add_argument("records", type=Path, help="JSON lines, one iteration each")
    parser.add_argument("--model", type=int, help="of several models in the file, this one")
    return parser


def _on_records(run: _Run, options: argparse.Namespace) -> str:
    iterations = load_iterations(options.records)
    try:
        return run(options, _of_models(iterations, options.model))
    except ValueError as error:
        raise ValueError(f"{options.records}: {error}") from None


def _plot(options: argparse.Namespace, of_models: _Models) -> str:
    from patallreduce import pictures

    iterations = _of_one(of_models)
    if options.kind == "timeline":
        pictures.timeline(iterations, options.out, last=options.last)
    elif options.kind == "predicted":
        pictures.predicted_against_real(iterations, options.out)
    else:
        pictures.arrival_heat_map(iterations, options.out)
    return str(options.out)


def _report(options: argparse.Namespace, of_models: _Models) -> str:
    from patallreduce.page import write_page

    write_page(options.out, list(of_models.values()), title=f"{options.records.name}: who was late")
    return f"{options.out}: open it in a browser"


def _stragglers(options: argparse.Namespace, of_models: _Models) -> str:
    threshold_s = None if options.threshold_ms is None else options.threshold_ms / 1e3
    iterations = _of_one(of_models)
    return str(straggler_report(iterations, threshold_s=threshold_s, ratio=options.ratio))


def _trace(options: argparse.Namespace, of_models: _Models) -> str:
    iterations = _of_one(of_models)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_trace(options.out, iterations)
    return f"{options.out}: open it at https://ui.perfetto.dev"


def _of_one(of_models: _Models) -> list[Iteration]:
    if len(of_models) > 1:
        raise ValueError(f"has models {[*of_models]}; choose one by --model")
    return next(iter(of_models.values()))


def _of_models(iterations: list[Iteration], model: int | None) -> _Models:
    """Those of each model, or of the one that is asked for."""
    models = sorted({iteration.model for iteration in iterations})
    wanted = [one for one in models if model in {None, one}]
    if not wanted:
        of = "" if model is None else f" of model {model}, only of {models}"
        raise ValueError(f"no iterations{of}")
    return {one: [i for i in iterations if i.model == one] for one in wanted}
