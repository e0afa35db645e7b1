"""What does a late rank cost a training run?  DDP with patallreduce against plain DDP over Gloo.

    python -m benchmarks.training --ranks 8 --network 200mbit --bytes 4MiB \
        --late 0.1 0.3 0.5 1 --patterns fixed moving random

Trains the CIFAR network of PAP18 (section 6), its gradients padded to a given size, on an emulated
network, without any hint; or layers that only sleep (--buckets), or a real model (--model).
Patterns of the late rank: `fixed` (rank 1), `leader` (rank 0), `last`, `moving` (another one every
20 iterations), `random` (drawn anew each iteration), `stall` (that in a tenth of the iterations),
`two` (rank 1, and rank 2 by half as much), `three` (the last ones), `half` of the ranks, `linear`
(rank by rank later), `uniform` (each by a share that is drawn anew each iteration). A late rank
computes longer in all layers, so its progress shows it. The hooks take turns in blocks (A B A B) in
the same processes.

Iteration time is the time from one last arrival to the next; its mean is given beside its median,
since a job may alternate between two. The bound it is compared with is
max(the late rank's own computation, the others' computation + 2 M*beta), as measured in the same
blocks. Where the late rank is another each time, its computation begins with a result that cannot
come earlier than one M*beta after the last arrival: so M*beta is added to it there.

Writes one JSON line per case and a picture, prints a table; the ranks run worker.py.
"""

from __future__ import annotations

import argparse

from benchmarks.lab.arguments import add_out, command_line, parse_bytes
from benchmarks.lab.plan import end_on_sigterm, make_plan, run_plan

from .models import REAL
from .patterns import PATTERNS
from .report import draw, print_table


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("training", __doc__)
    parser.add_argument("--network", default="200mbit", help="a rate, e.g. 200mbit, or none")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--bytes", type=parse_bytes, default=4 << 20, help="of gradients")
    parser.add_argument(
        "--buckets",
        type=int,
        default=0,
        help="instead of the network, so many sleeping layers, each a bucket of DDP",
    )
    parser.add_argument(
        "--model", default="sized", choices=["sized", *REAL], help="sized: by --bytes, --buckets"
    )
    parser.add_argument("--late", type=float, nargs="+", default=[0.1, 0.3, 0.5, 1.0])
    parser.add_argument("--patterns", nargs="+", default=["fixed"], choices=[*PATTERNS])
    parser.add_argument(
        "--hooks",
        nargs="+",
        default=["gloo", "auto"],
        help="gloo: plain DDP; auto: patallreduce; tuned: the same by a tuning file; ring, slt, "
        "...: that algorithm without a monitor; ring15: with 15 segments per bucket; watched: ring "
        "with one; reversed: slt in the wrong order on purpose; leaves12: 12 leaves, each rank's "
        "computation cut among its own",
    )
    parser.add_argument("--tuning-file", help="of benchmarks.tuned or tune, for the hook tuned")
    parser.add_argument("--batch-size", type=int, default=8, help="images per rank")
    parser.add_argument(
        "--computation-s", type=float, default=0.1, help="added to every rank's, asleep"
    )
    parser.add_argument(
        "--jitter", type=float, default=0.0, help="deviation of what is added, as a share of it"
    )
    parser.add_argument("--barrier", action="store_true", help="between iterations")
    parser.add_argument("--iterations", type=int, default=30, help="per block")
    parser.add_argument("--settled", type=int, default=10, help="iterations of a block left out")
    parser.add_argument("--blocks", type=int, default=2, help="of each hook")
    add_out(parser, "out/training", 1800.0)
    options = parser.parse_args()
    if "tuned" in options.hooks and options.tuning_file is None:
        parser.error("--hooks tuned: expected --tuning-file")
    if options.model in REAL:
        options.bytes = 4 * sum(p.numel() for p in REAL[options.model]().parameters())
    return options


def main() -> None:
    """Run the benchmark."""
    options = parse_arguments()
    end_on_sigterm()
    plan = make_plan(options, "training.jsonl")
    records = run_plan(plan, [options.ranks], "benchmarks.training.worker")
    print_table(records)
    draw(records, options.out / "training.png")
    print(f"\nPicture: {options.out / 'training.png'}; one JSON line per case: {plan['results']}")


if __name__ == "__main__":
    main()
