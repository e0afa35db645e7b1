"""Guards of engine, transports and monitor left out: one rank then holds up or misleads others."""

from .mutant import Mutant

CALLS = "csrc/executor/calls.cpp"
ENGINE = "csrc/executor/engine.cpp"
UCX = "csrc/transport/ucx.cpp"
MONITOR = "csrc/monitor/monitor.cpp"

GUARDS = [
    Mutant(
        "any number of segments is compiled because another rank announced it",
        CALLS,
        "if (pending.call.key.segments > most_segments_ahead) return;",
        "",
    ),
    Mutant(
        "UCX's worker is turned as long as there is something to do for it",
        "csrc/transport/ucx_messages.cpp",
        "turn < most_worker_turns && ",
        "",
    ),
    Mutant(
        "who waits for UCX looks at the time only when it has nothing to do",
        UCX,
        "if (now_s() > deadline_s) return;\n    if (busy) continue;",
        "if (busy) continue;\n    if (now_s() > deadline_s) return;",
    ),
    Mutant(
        "a leader that does not answer is asked the time as often as one that does",
        MONITOR,
        "std::clamp(unanswered * first_ping_interval_s,",
        "std::clamp(first_ping_interval_s,",
    ),
    Mutant(
        "an engine needs no descriptor to be woken",
        "csrc/executor/driver.cpp",
        "PATR_CHECK(wake_fd_ >= 0,",
        "PATR_CHECK(true,",
    ),
    Mutant(
        "a loopback needs no descriptors",
        "csrc/transport/loopback.cpp",
        "PATR_CHECK(boxes_.back()->fd >= 0,",
        "PATR_CHECK(true,",
    ),
    Mutant(
        "UCX needs no descriptor to see processes end",
        UCX,
        "if (status != UCS_OK || processes_fd_ < 0) {",
        "if (status != UCS_OK) {",
    ),
    Mutant(
        "what has not been taken yet is missed of a rank that left in order",
        "csrc/executor/operation.cpp",
        "return {step, state_[step] == State::posted ? peer(step) : -1};",
        "return {step, peer(step)};",
    ),
    Mutant(
        "what is asked for only now is missed",
        "csrc/executor/watch.cpp",
        "missed_since_s_.try_emplace({waiting.seq, step}, looked_s_).first->second;",
        "waiting.arrival_s;",
    ),
    Mutant(
        "who asks for a pulse is asked for one, too",
        "csrc/executor/watch.cpp",
        "return unheard_for(lately);",
        "return unheard_for(0);",
    ),
    Mutant(
        "all ranks ask for pulses at once",
        "csrc/executor/watch.cpp",
        "const double turn = 1 + lately * rank_",
        "const double turn = 1 + 0 * rank_",
    ),
    Mutant(
        "nothing is missed that depends on no earlier step",
        "csrc/executor/operation.cpp",
        "return {step, state_[step] == State::posted ? peer(step) : -1};",
        "return {step, state_[step] == State::posted && waits_[step] > 0 ? peer(step) : -1};",
    ),
    Mutant(
        "anybody tells the places of a dynamic schedule",
        ENGINE,
        "if (from == Places::keeper) calls_.bind_places(told);",
        "calls_.bind_places(told);",
    ),
    Mutant(
        "anybody ends the plans",
        ENGINE,
        "if (from == leader_rank) plans_.note_end(end);",
        "plans_.note_end(end);",
    ),
    Mutant(
        "anybody makes plans",
        MONITOR,
        "if (std::find(children.begin(), children.end(), rank_) == children.end()) return;",
        "",
    ),
    Mutant(
        "anybody tells the leader's clock",
        MONITOR,
        "if (from != leader_rank) return;",
        "",
    ),
    Mutant(
        "what was left to be worked out is not",
        MONITOR,
        "if (rank_ == leader_rank) catch_up_.wake();",
        "",
    ),
    Mutant(
        "plans wait for what was left to be worked out",
        MONITOR,
        "if (rank_ == leader_rank) catch_up_.wake();",
        "if (rank_ == leader_rank) leader_.catch_up(true);",
    ),
]
