"""Numbers with units that nobody measured: document -> phrase in it -> what the number is."""

from __future__ import annotations

NOT_MEASURED: dict[str, dict[str, str]] = {
    "README.md": {
        "8 ranks late by 0.3 s": "a delay that was set",
    },
    "docs/tuning.md": {
        "one rank late by 0.3 s": "a delay that was set",
        "1, 2 and 3 at 37.1, 18.5 and 5.8 %": "TUNE07, table 6.4",
        "C4.5's trees at 0.66 to 1.64 %": "TUNE07, table 6.7",
        "Hockney above 20 % where LogGP and PLogP have 5 and 7 %": "TUNE07, section 6.1.2",
    },
    "docs/tutorial.md": {
        "Python 3.10 or newer": "a version",
    },
    "docs/footguns.md": {
        "buckets that take 2 ms or more": "a limit in the sources, _may_plan",
    },
    "docs/reproducible.md": {
        "equations 2.1-2.3": "of a paper",
        "[MPI 4.1], section 6.9.1": "a standard's version and section",
        "section 4.3": "of a paper",
    },
    "ARCHITECTURE.md": {
        "less than 1.4 partners": "a limit of patallreduce/pricing/link.py",
        "messages of 2 ms or more are planned": "a limit in the sources, _may_plan",
        "waits for a plan for 5 s": "a limit in the sources, longest_wait_for_plan_s",
        "a margin of 0.06 M*beta": "a constant of the selector",
        "win 1.5 % of an iteration": "a constant of the planner",
        "more than 1 % of the loop's time": "a limit in the sources, most_trials_cost",
        "4 ranks at 1 Gbit/s on two cores": "a job that was drawn",
        "overhead 2 ms less and the iteration 4 ms longer": "read off once, no record is kept",
        "the 15th: 1.08 of the ring": "measured on an earlier commit, whose record was replaced",
        "the last plan took more than 1 % of an iteration": "a limit in the sources, _MOST_WAIT",
        "5 to 14 ms of processor time in an iteration of 80 ms": "read off once, as said",
        "for 31 to 225 ms, eight times in about 115 iterations": "read off once, as said",
        "4 MiB, 1 GB/s": "the link of a simulation",
        "rings of 10 ms told mostly latency from 8 ranks and 1 ms on": "a limit that was, computed",
        "for 10 us to 50 ms, 100 Mbit/s to 400 Gbit/s": "links of a simulation",
        "fit in 64 MiB": "a limit in the sources",
        "it made 4 faster by more than 0.5 %": "computed once, with a candidate that was not kept",
        "one of them by 2.6 %, all by 0.05 % on": "computed once, as the line before",
        "With a quarter of 25 ms": "a latency that was set",
        "was priced at 593 ms": "computed by the model, with the share that it had",
        "it takes 371.": "long_ways.jsonl, as docs/performance.md has it",
        "What is slower by 1.4 on one port": "a constant of csrc/monitor/ports.cpp",
        "100 times the latency, lose at most 3 %": "a link that was set, and a test's limit",
        "sends k + 1 times (P - 1) / P of the data, a ring 2 times": "counted",
    },
    "docs/reliability.md": {
        "for 5 seconds at most": "a limit in the sources, _CLOSE_TIMEOUT_S",
    },
    "docs/clusters.md": {
        "Slurm 22.05": "a version",
        "Kubernetes 1.27 and 1.37": "versions",
    },
    "docs/networks.md": {
        "One machine at 100 Mbit/s among others at 200": "rates of an example",
        "differ by more than 1.4": "a constant of the port meter",
        "about a round trip and 0.2 s": "Linux's least retransmission timeout",
    },
    "docs/gpu.md": {
        "2.14 or newer": "a version of NCCL",
        "a thread asks every 5 ms": "an interval in the sources",
    },
    "docs/performance.md": {
        "rank late by 0.3 s": "a delay that was set",
        "rank 1 late by 80 ms": "a delay that was set",
        "5 ms between any two ranks": "a latency that was set",
        "training with 0.1 s of computation": "a time that was set",
        "*after 1 s*": "a pause that was set",
        "between two sites of 50 ms, nobody late": "a latency that was set",
        "4 ranks, 1 Gbit/s, 20 ms, 8 MiB in 8 buckets, 0.1 s": "a job that was set",
        "take no more than 1.05 of that": "a limit of benchmarks/changing",
        "Iterations of training, 0.1 s of computation": "a time that was set",
        "layers that sleep 0.15 s, late ranks by up to 0.3 s": "times that were set",
        "iterations up to 0.6 s": "a limit that was set",
        "blocks of about 3 s each": "a time that was set",
        "delays of 0 to 1 s": "delays that were set",
        "three ranks late by 0.5 s": "a delay that was set",
        "rank 1 late by 0.3 s: after": "a delay that was set",
        "late by 1 s: after": "a delay that was set",
        "within 1.02 of the best fixed | within 1.05": "limits that were set",
    },
}
