"""What the demo tells a stranger: what is compared, one table, and what its columns mean."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from records import FIRST_STEADY_ITERATION, Run, Summary, measure
from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import patallreduce as pat
from patallreduce.records.iterations import Iteration

INTRODUCTION = (
    '{ranks} processes ("ranks") train one network together with DistributedDataParallel (DDP). '
    "In every training step each computes gradients from its own images, and an all-reduce sums "
    "them. Here rank {late_rank} computes {late_ms:g} ms longer than the others in every step, as "
    "a slower machine would, and all wait for it. The network is trained with plain DDP, whose "
    "all-reduce is Gloo's, and with one more line, which is not told who is late:\n\n"
    "    pat.register(ddp_model)\n"
)

EXPLANATIONS = {
    "step time": "One whole training step of the job, from the end of one step to the end of the "
    "next. The figure that matters; the next three explain it.",
    "average elapsed": "How long a rank's gradients are in the all-reduce, averaged over ranks. "
    "Early ranks have to wait for the late one, so its lateness is part of this.",
    "after": "From when the last rank's gradients are ready to when the last rank has the sum: "
    "what the all-reduce costs once nobody is missing any more.",
    "late rank's own": "How long the late rank, which everybody waits for, is itself held up. "
    "Near zero, it goes straight on to its next step, and the whole job with it.",
    "loss, accuracy": "Training loss (mean of the last steps) and right answers on test images. "
    "The same gradients are summed, only in another order: they differ by rounding at first, and "
    "training amplifies any difference, rounding too.",
}


@dataclass(frozen=True)
class Scenario:
    """What both configurations are put through."""

    ranks: int
    late_rank: int
    late_ms: float
    algorithm: str
    iterations: int


@dataclass(frozen=True)
class Outcome:
    """All runs of a configuration, and the summary of the last one."""

    name: str
    runs: list[Run]
    summary: Summary


def introduction(scenario: Scenario) -> Text:
    """Say what is going to be compared."""
    return Text(INTRODUCTION.format(**vars(scenario)))


def comparison(scenario: Scenario, plain: Outcome, ours: Outcome, transfer_s: float) -> Group:
    """Say how it went; `transfer_s` is M*beta as measured on the network of the runs."""
    late_rank = scenario.late_rank
    gains = [
        measure(a, late_rank=late_rank).iteration_s / measure(b, late_rank=late_rank).iteration_s
        for a, b in [
            (plain.runs, ours.runs),
            *(([a], [b]) for a, b in zip(plain.runs, ours.runs, strict=True)),
        ]
    ]
    rounds = ", ".join(f"{gain:.2f}" for gain in gains[1:])
    alone_ms = measure(ours.runs, late_rank=late_rank).late_computation_s * 1e3
    facts = (
        f"[bold]Step time, plain over patallreduce: {gains[0]:.2f}[/] (round by round: {rounds})\n"
        f"The late rank alone computes {alone_ms:.1f} ms per step: no all-reduce makes it less.\n"
        f"Each step all-reduces {plain.summary.gradient_bytes / 1e3:.0f} KB of gradients. Sending "
        f"them once from one rank to another takes {transfer_s * 1e3:.1f} ms, measured on the same "
        f"network (M*beta).\nThe losses of the two differ by at most "
        f"{_loss_difference(plain.runs[0], ours.runs[0], scenario.iterations // 3):.0e} in the "
        f"first third of the steps.\nImages: {escape(plain.summary.images)}.\n"
    )
    return Group(_table(scenario, [plain, ours]), facts, _explanations())


def monitor_report(iterations: Sequence[Iteration]) -> Group:
    """Say what the progress monitor found out by itself, in the last run."""
    schedules = Counter(
        bucket.algorithm or "the plain ring (nothing learned yet)"
        for iteration in iterations
        for bucket in iteration.buckets
    )
    ran = ", ".join(
        f"{name} in {count} step{'s' * (count != 1)}" for name, count in schedules.most_common()
    )
    return Group(
        Text("\nWhat the progress monitor saw in the last run, without being told:", style="bold"),
        Text(str(pat.straggler_report(iterations))),
        Text(f"All-reduces chosen: {ran}."),
    )


def _loss_difference(plain: Run, ours: Run, iterations: int) -> float:
    return max(
        abs(a.loss - b.loss)
        for plain_ranks, our_ranks in zip(plain[:iterations], ours[:iterations], strict=True)
        for a, b in zip(plain_ranks, our_ranks, strict=True)
    )


def _table(scenario: Scenario, outcomes: list[Outcome]) -> Table:
    runs = len(outcomes[0].runs)
    table = Table(
        title=f"\nRank {scenario.late_rank} of {scenario.ranks} ranks late by "
        f"{scenario.late_ms:g} ms in every step",
        caption=f"medians over {runs} run{'s, in turns,' * (runs > 1)} of {scenario.iterations} "
        f"steps each, the first {FIRST_STEADY_ITERATION} left out\n",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for heading in ["step\ntime", "average\nelapsed", "\nafter", "late\nrank's own"]:
        table.add_column(f"{heading}\nms", justify="right")
    table.add_column("\nloss", justify="right")
    table.add_column("test\naccuracy\n%", justify="right")
    for outcome in outcomes:
        m = measure(outcome.runs, late_rank=scenario.late_rank)
        times_s = [m.iteration_s, m.average_elapsed_s, m.after_s, m.late_elapsed_s]
        table.add_row(
            outcome.name,
            *(f"{time_s * 1e3:.1f}" for time_s in times_s),
            f"{outcome.summary.loss:.3f}",
            f"{100 * outcome.summary.accuracy:.1f}",
        )
    return table


def _explanations() -> Table:
    explanations = Table.grid(padding=(0, 2))
    explanations.add_column(style="bold", no_wrap=True)
    for row in EXPLANATIONS.items():
        explanations.add_row(*row)
    return explanations
