"""Train on 1, 2, 3 and 4 ranks and end with the same weights, to the last bit.

    python examples/elastic_reproducible.py
    python examples/elastic_reproducible.py --amp --clip --late-ms 20

Every global batch is cut into 12 leaves. A rank owns some of them, and their gradients are added
along one tree, whoever owns which: so the number of ranks does not show in the weights, and a
checkpoint of 4 ranks goes on with 3 as if nothing had happened. As contrast the same images in the
same global batches are trained on by DistributedDataParallel alone, where it does show.

One run after the other, each on processes of this machine. What a rank does: `elastic_rank.py`.
Exit code 1 if weights of runs with leaves differ.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from elastic_rank import Result, Run, Settings, start
from images import Images, load_images
from rich.console import Console
from rich.table import Table
from torch.multiprocessing.spawn import start_processes

SHOWN_DIGITS = 8  # of a fingerprint's 64


def parse_options() -> argparse.Namespace:
    """Read the command line and refuse what cannot work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4], metavar="P")
    parser.add_argument(
        "--resume-on", type=int, metavar="P", help="ranks to go on with; default: one less"
    )
    parser.add_argument("--leaves", type=int, default=12, help="of a global batch")
    parser.add_argument("--leaf-size", type=int, default=4, help="images of a leaf")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=8, help="of an epoch, at most")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a cifar-10-batches-py folder")
    parser.add_argument(
        "--late-ms", type=float, default=5.0, help="a random rank's random delay, per iteration"
    )
    parser.add_argument("--amp", action="store_true", help="bfloat16 autocast and GradScaler")
    parser.add_argument("--clip", action="store_true", help="clip the gradients' norm to 0.5")
    parser.add_argument("--out", type=Path, default=Path("out/elastic"))
    options = parser.parse_args()
    if options.resume_on is None:
        options.resume_on = max(options.ranks[-1] - 1, 1)
    options.ranks = list(dict.fromkeys(options.ranks))
    for ranks in (*options.ranks, options.resume_on):
        if not 1 <= ranks <= options.leaves:
            parser.error(f"{ranks} ranks: expected 1 to {options.leaves}, a leaf for each rank")
    if min(options.leaf_size, options.iterations) < 1 or not 0 <= options.late_ms < float("inf"):
        parser.error("--leaf-size and --iterations must be 1 or more, --late-ms 0 or more")
    if options.epochs < 2:
        parser.error("--epochs must be 2 or more: the checkpoint is taken in the middle")
    return options


def runs_by_leaves(options: argparse.Namespace, settings: Settings) -> list[Run]:
    """One run for each number of ranks; the last one's checkpoint goes on with another number."""
    middle, first, other = settings.epochs // 2, options.ranks[-1], options.resume_on
    runs = [Run(ranks_of(ranks), ranks, True, settings) for ranks in options.ranks]
    runs[-1] = replace(runs[-1], save_after=middle)
    going_on = Run(
        f"{ranks_of(first)}, then {other}",
        other,
        True,
        settings,
        from_epoch=middle,
    )
    return [*runs, going_on]


def ranks_of(number: int) -> str:
    """Say how many."""
    return "1 rank" if number == 1 else f"{number} ranks"


def carry_out(runs: list[Run], images: Images, console: Console) -> dict[str, Result]:
    """Run them one after the other; what each ended with, by its name."""
    results = {}
    for run in runs:
        shutil.rmtree(run.folder, ignore_errors=True)
        run.folder.mkdir(parents=True)
        begun_s = time.monotonic()
        start_processes(
            start, args=(run, images), nprocs=run.ranks, daemon=True, start_method="forkserver"
        )
        results[run.name] = Result.of(run)
        how = "with leaves" if run.by_leaves else "DDP alone"
        console.print(f"  {how}, {run.name}: {time.monotonic() - begun_s:.1f} s")
    return results


def table(results: dict[str, Result], title: str, epochs: int) -> Table:
    """Show each run's fingerprints; in green those that the first run has, too."""
    shown = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
    shown.add_column("run", no_wrap=True)
    for epoch in range(epochs):
        shown.add_column(f"epoch {epoch + 1}", no_wrap=True)
    shown.add_column("accuracy", justify="right")
    first = next(iter(results.values())).fingerprints
    for name, result in results.items():
        cells = [
            f"[{'green' if found == first[epoch] else 'red'}]{found[:SHOWN_DIGITS]}[/]"
            if (found := result.fingerprints.get(epoch))
            else ""
            for epoch in range(epochs)
        ]
        shown.add_row(name, *cells, f"{result.accuracy:.1%}")
    return shown


def distinct(results: dict[str, Result]) -> int:
    """Return how many different fingerprints there are at the epoch where there are most."""
    epochs = {epoch for result in results.values() for epoch in result.fingerprints}
    return max(
        len({r.fingerprints[epoch] for r in results.values() if epoch in r.fingerprints})
        for epoch in epochs
    )


def main() -> int:
    """Run the comparison; return the exit code."""
    options = parse_options()
    console = Console(highlight=False)
    console.width = max(console.width, 34 + 11 * options.epochs)  # else tables lose digits
    images = load_images(options.data)  # refuses wrong data before any rank starts
    settings = Settings(
        leaves=options.leaves,
        leaf_size=options.leaf_size,
        epochs=options.epochs,
        iterations=options.iterations,
        late_s=options.late_ms / 1e3,
        amp=options.amp,
        clip=options.clip,
        out=options.out,
    )
    console.print(
        f"Images: {images.name}.\n"
        f"Global batches: {options.leaves} leaves of {options.leaf_size} images.\n"
        f"Delays: up to {options.late_ms:g} ms, of another random rank in each iteration.\n"
    )
    plain_runs = [Run(ranks_of(ranks), ranks, False, settings) for ranks in options.ranks]
    by_leaves = carry_out(runs_by_leaves(options, settings), images, console)
    plain = carry_out(plain_runs, images, console)
    everything = options.out / "results.json"
    held = {"with leaves": by_leaves, "DDP alone": plain}
    everything.write_text(json.dumps(held, default=vars, indent=1))

    console.print(f"\nFirst digits of the weights' fingerprints; whole: {everything}\n")
    console.print(table(by_leaves, "With leaves", options.epochs))
    console.print(
        f"The last run goes on from the checkpoint of the run before it, after epoch "
        f"{options.epochs // 2}.\n"
    )
    console.print(table(plain, "DDP alone, with the same global batches", options.epochs))
    same = distinct(by_leaves) == 1
    console.print(
        f"\nWith leaves: {len(by_leaves)} runs, "
        + ("all with the same weights after every epoch." if same else "BUT WEIGHTS DIFFER.")
    )
    console.print(f"DDP alone: {len(plain)} runs, fingerprints that differ: {distinct(plain)}.")
    return 0 if same else 1


if __name__ == "__main__":
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["torch._dynamo", "patallreduce"]  # slow to import: once for all ranks (optimizers do)
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("UCX_NET_DEVICES", "lo")  # else UCX listens on every interface
    sys.exit(main())
