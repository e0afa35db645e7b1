"""Wrong versions of monitor and leader: each would cost time, none a wrong sum."""

from .mutant import Mutant

LEADER = "csrc/monitor/leader.cpp"
RANKS = "csrc/monitor/ranks.cpp"
PORTS = "csrc/monitor/ports.cpp"
MONITOR = "csrc/monitor/monitor.cpp"

MONITOR = [
    Mutant(
        "results are not foretold where ranks tell their progress",
        LEADER,
        "if (loop.arrived >= 0 && id.iteration > loop.arrived)",
        "if (false)",
    ),
    Mutant(
        "a pause that is longer for all ranks puts the next one in doubt",
        "csrc/prediction/predictor.cpp",
        "std::min(pause().error_s(), pauses_apart_s)",
        "pause().error_s()",
    ),
    Mutant(
        "the leader decides when the first rank asks",
        LEADER,
        "return asking.ranks >= enough || now_s >= asking.until_s;",
        "return asking.ranks >= 1;",
    ),
    Mutant(
        "the leader's patience has no end",
        LEADER,
        "asking.until_s = std::min(asking.until_s, now_s + patience_s);",
        "",
    ),
    Mutant(
        "who asks alone waits without end",
        LEADER,
        "now_s + std::min({doubt_s, alone_s, longest_patience_s});",
        "std::numeric_limits<double>::infinity();",
    ),
    Mutant(
        "who asks alone waits no longer than two do",
        LEADER,
        "loop.promises_enough() ? alone_transfers * transfer_s : patience_s;",
        "patience_s;",
    ),
    Mutant(
        "half of the ranks are enough where somebody is late each time",
        LEADER,
        "spare ? ranks_ - 1 : (ranks_ + 1) / 2;",
        "(ranks_ + 1) / 2;",
    ),
    Mutant(
        "who computes many times longer than most is never believed to",
        RANKS,
        "std::max(longest_believed * compute_s_, much_s);",
        "longest_believed * compute_s_ + 0 * much_s;",
    ),
    Mutant(
        "who asks waits though nothing is in doubt",
        LEADER,
        "std::min({doubt_s, alone_s, longest_patience_s})",
        "std::min(alone_s, longest_patience_s)",
    ),
    Mutant(
        "a rank of which nothing is known is taken for certain",
        RANKS,
        "forecast.errors_s[r] = *most - *least;",
        "forecast.errors_s[r] = 0;",
    ),
    Mutant(
        "a plan may be due before all ranks have made their usual progress",
        LEADER,
        "loop.ranks.ready(id.iteration) < ranks_",
        "loop.ranks.ready(id.iteration) < 1",
    ),
    Mutant(
        "a rank that has always computed longer is expected to compute as long as the others",
        RANKS,
        "std::max(compute_s_ + longer_s.mean(), 0.0)",
        "std::max(compute_s_, 0.0)",
    ),
    Mutant(
        "how much computations vary is not told",
        RANKS,
        "forecast.spreads_s.push_back(deviations_per_spread * longer_s.off());",
        "forecast.spreads_s.push_back(0);",
    ),
    Mutant(
        "one computation that took ages teaches that it always will",
        RANKS,
        "constexpr double longest_believed = 10;",
        "constexpr double longest_believed = 1e9;",
    ),
    Mutant(
        "nobody expects when the all-reduce will let ranks go",
        LEADER,
        "loop.ranks.expect_results(finish_s);",
        "",
    ),
    Mutant(
        "plans that were measured to be slower go on",
        LEADER,
        "return *way == Way::plain || !loop",
        "return !loop",
    ),
    Mutant(
        "plans that promise nothing are looked for in every iteration",
        LEADER,
        "return promises_enough() || iteration >= next_look;",
        "return true;",
    ),
    Mutant(
        "plans that promise nothing are never looked for again",
        LEADER,
        "return promises_enough() || iteration >= next_look;",
        "return promises_enough();",
    ),
    Mutant(
        "who asks waits for plans that promise nothing",
        LEADER,
        "std::numeric_limits<double>::infinity() : promised_s.mean();",
        "1e9 : 1e9;",
    ),
    Mutant(
        "the regime forgets who is late",
        RANKS,
        "lasting_s = std::max(std::abs(longer_s) - 2 * rank.longer_s().off(), 0.0);",
        "lasting_s = 0;",
    ),
    Mutant(
        "what ranks send tells nothing of ports",
        LEADER,
        "if (!ports_->take(rank, report, slowed)) return;",
        "return;",
    ),
    Mutant(
        "ports are judged by flows that wait for data",
        PORTS,
        "if (*middle * alike < 1) return false;",
        "",
    ),
    Mutant(
        "a port gets narrower though iterations take no longer",
        PORTS,
        "slowed && factor * alike < 1 ? -1 : 0",
        "factor * alike < 1 ? -1 : 0",
    ),
    Mutant(
        "a port gets wider than any was",
        PORTS,
        "start_[rank] / most, widest_",
        "start_[rank] / most, 1e30",
    ),
    Mutant(
        "plans are made ahead of progress that will be told",
        LEADER,
        "if (loop.ranks.report_progress()) return false;",
        "",
    ),
    Mutant(
        "what makes half of the ranks earlier makes nobody else earlier",
        RANKS,
        "return std::max(*least, 0.0) + std::min(*most, 0.0);",
        "return std::max(*least, 0.0);",
    ),
    Mutant(
        "what makes half of the ranks later makes nobody else later",
        RANKS,
        "return std::max(*least, 0.0) + std::min(*most, 0.0);",
        "return std::min(*most, 0.0);",
    ),
    Mutant(
        "plans are made ahead, whatever is in doubt",
        LEADER,
        "return doubt_s <= std::max(answer_s(), quantum * transfer_s(loop));",
        "return doubt_s >= 0;",
    ),
    Mutant(
        "that there will be no plan is told when somebody asks",
        LEADER,
        "if (goes_without(loop, iteration)) return true;",
        "",
    ),
    Mutant(
        "how far off ranks are is what the link says",
        LEADER,
        "way_s = std::fmax(way_s, of_rank_s.quarter());",
        "way_s = std::fmax(way_s, 0 * of_rank_s.quarter());",
    ),
    Mutant(
        "progress is waited for though the answer comes too late",
        RANKS,
        "std::max(lead * computed_s, answer_s)",
        "lead * computed_s + 0 * answer_s",
    ),
    Mutant(
        "the most that is seen of a port in three times is not what counts",
        PORTS,
        "std::max(factor, factor_[rank])",
        "std::min(factor, factor_[rank]) / 2",
    ),
    Mutant(
        "a rank's finish times stay on its own clock",
        MONITOR,
        "for (double& finish_s : started->finish_s) finish_s += shift_s;",
        "",
    ),
    Mutant(
        "a rank's arrivals stay on its own clock",
        MONITOR,
        "for (double& arrival_s : arrived->arrivals_s) arrival_s += shift_s;",
        "",
    ),
    Mutant(
        "reports that no plan waits for are lost",
        MONITOR,
        "later_ += bytes;",
        "if (!may_wait) later_ += bytes;",
    ),
    Mutant(
        "what plans would have won is forgotten",
        LEADER,
        "loop.guards.missed(iteration, plan->plain_pace_s - plan->pace_s);",
        "loop.guards.missed(iteration, 0);",
    ),
    Mutant(
        "the newest answer tells the clocks' offset, however long it took",
        "csrc/monitor/clock_offset.cpp",
        "return a.trip_s < b.trip_s;",
        "return &a > &b;",
    ),
    Mutant(
        "who becomes late is noticed late",
        RANKS,
        "if (twice_s > std::max(much_s, 2 * longer_s_.mean())) {",
        "if (false) {",
    ),
    Mutant(
        "who is late twice is late from the third time on if the second was shorter",
        RANKS,
        "const double twice_s = std::min(by_s, last_longer_s_);",
        "const double twice_s = by_s;",
    ),
    Mutant(
        "a port found as wide as before makes all be forgotten",
        PORTS,
        "changed = changed || found != now_[rank];",
        "changed = true;",
    ),
    Mutant(
        "plans are made that nobody asks for",
        LEADER,
        "const bool wanted = loop.asked + 2 >= id.iteration;",
        "const bool wanted = true;",
    ),
    Mutant(
        "nothing acts as a barrier",
        "csrc/monitor/barriers.h",
        "return 4 * waiting_ < alone_;",
        "return false;",
    ),
    Mutant(
        "starts do not tell of a barrier",
        "csrc/monitor/ranks.h",
        "at_starts_.seen() || at_arrivals_.seen()",
        "at_arrivals_.seen()",
    ),
]
