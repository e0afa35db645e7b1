"""Wrong versions of selection, monitor and prediction: each would cost time, none a wrong sum."""

from .mutant import Mutant

PORTS = "csrc/monitor/ports.cpp"
LEADER = "csrc/monitor/leader.cpp"
RANKS = "csrc/monitor/ranks.cpp"
GUARD = "csrc/monitor/guard.cpp"
MONITOR = "csrc/monitor/monitor.cpp"
PLANNER = "csrc/selection/planner.cpp"
ROLLOUT = "csrc/selection/rollout.cpp"
PRICE = "csrc/selection/price.cpp"
SHARES = "csrc/algorithms/shares.cpp"
SELECTOR = "csrc/selection/selector.cpp"
SCHEDULES = "csrc/selection/schedules.cpp"
PATTERN = "csrc/selection/pattern.cpp"
PREDICTOR = "csrc/prediction/predictor.cpp"
JOB = "csrc/prediction/job.cpp"
EDGES = "csrc/prediction/edges.cpp"
HISTORY = "csrc/prediction/history.cpp"

MUTANTS = [
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
        "several buckets of a direct exchange show two latencies each",
        "csrc/algorithms/all_reduce/direct_exchange.cpp",
        "all_until_s[rank] += values_s + sums_s;",
        "values_until_s[rank] = all_until_s[rank] += values_s + sums_s;",
    ),
    Mutant(
        "a direct exchange lets all ranks go together",
        SHARES,
        "as_much += std::min(of_other, share);",
        "as_much += of_other;",
    ),
    Mutant(
        "shares of a direct exchange are priced as if they could be cut anywhere",
        "csrc/algorithms/all_reduce/direct_exchange.cpp",
        "expected.earliest(segments);",
        "expected.earliest(1 << 20);",
    ),
    Mutant(
        "later plans are taken to know nothing",
        ROLLOUT,
        "of_bucket_s[rank] += known_s;",
        "of_bucket_s[rank] += 0 * known_s;",
    ),
    Mutant(
        "algorithms take turns whenever the other seems a little better",
        PLANNER,
        "constexpr double change_share = 0.5;",
        "constexpr double change_share = 0;",
    ),
    Mutant(
        "who computes many times longer than most is never believed to",
        RANKS,
        "std::max(longest_believed * compute_s_, much_s);",
        "longest_believed * compute_s_ + 0 * much_s;",
    ),
    Mutant(
        "buckets are grouped for whoever takes many messages",
        PLANNER,
        "if (messages <= most_messages && of_candidate > most_messages) continue;",
        "",
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
        "trials are as many where the model is believed",
        GUARD,
        "constexpr double belief = 32, believed_share = 0.5;",
        "constexpr double belief = 1, believed_share = 0.5;",
    ),
    Mutant(
        "a promise is always believed",
        GUARD,
        "const bool credible = 2 * error_s < promised_s_;",
        "const bool credible = true;",
    ),
    Mutant(
        "what was slower is tried again as soon as what was not",
        GUARD,
        "interval_ = std::min(until_trial_ * interval_growth, most_interval);",
        "until_trial_ = interval_ = first_interval;",
    ),
    Mutant(
        "the first iteration after a change counts",
        GUARD,
        "if (last->way != last_->way) return;",
        "",
    ),
    Mutant(
        "trials with plans go on, whatever they have cost",
        GUARD,
        "constexpr double most_trials_cost = 0.01;",
        "constexpr double most_trials_cost = 1e9;",
    ),
    Mutant(
        "all regimes are one",
        GUARD,
        "return {level(late(least_lateness * scale_s)), level(late(long_lateness * scale_s)),",
        "return {0, 0,",
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
        "the usual plan is taken however far ranks are apart",
        "csrc/selection/choices.cpp",
        "usual.times >= (agreed ? usually : 1) && as_before",
        "usual.times >= (agreed ? usually : 1)",
    ),
    Mutant(
        "plans are made ahead of progress that will be told",
        LEADER,
        " || loop.ranks.report_progress()) return false;",
        ") return false;",
    ),
    Mutant(
        "what moves half of the ranks alike moves nobody else",
        "csrc/monitor/ranks.cpp",
        "return 2 * asked >= ranks_.size() ? std::min(least_s, 0.0) : 0;",
        "return 0;",
    ),
    Mutant(
        "plans are made ahead, whatever is in doubt",
        LEADER,
        "return doubt_s <= std::max(2 * choose_.latency_s, quantum * transfer_s(loop));",
        "return doubt_s >= 0;",
    ),
    Mutant(
        "a direct exchange tells nothing of ports",
        "csrc/algorithms/registry.cpp",
        "Sends::to_all_at_once),",
        "Sends::otherwise),",
    ),
    Mutant(
        "the most that is seen of a port in three times is not what counts",
        PORTS,
        "std::max(factor, factor_[rank])",
        "std::min(factor, factor_[rank]) / 2",
    ),
    Mutant(
        "how late the last rank is makes no other regime",
        GUARD,
        "static_cast<int>(last_doublings_)};",
        "0};",
    ),
    Mutant(
        "a regime changes with every doubling, however often",
        GUARD,
        "if (std::abs(doublings - last_doublings_) > 1) last",
        "last",
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
        "arrivals are the times of the calls",
        "hooks/layers.py",
        "self._gradients.arrival_s(index, parameters, now_s)",
        "now_s",
    ),
    Mutant(
        "what ranks compute between all-reduces does not count",
        ROLLOUT,
        "const double next_s = last_results_s[rank] + value(forecast.compute_s, rank);",
        "const double next_s = last_results_s[rank];",
    ),
    Mutant(
        "an iteration begins with idle ports, whatever still drains",
        ROLLOUT,
        "finish_s(i == 0 ? ways : then, forecast.buckets, expected_s, real_s, busy);",
        "finish_s(i == 0 ? ways : then, forecast.buckets, expected_s, real_s, busy = {});",
    ),
    Mutant(
        "only one iteration is looked at",
        "csrc/selection/rollout.h",
        "constexpr int look_ahead = 8; ",
        "constexpr int look_ahead = 2; ",
    ),
    Mutant(
        "samples are all as forecast",
        ROLLOUT,
        "const double side = sample == 0 ? 0 : sample % 2 == 1 ? 1 : -1;",
        "const double side = 0;",
    ),
    Mutant(
        "a plan needs no margin",
        PLANNER,
        "earliest(always, plain.front(), margin_ * iteration_s * horizon, far_end_s)",
        "earliest(always, plain.front(), 0, far_end_s)",
    ),
    Mutant(
        "only plans for good are priced",
        PLANNER,
        "const Policy& best = earliest(once, usual,",
        "const Policy& best = earliest({}, usual,",
    ),
    Mutant(
        "what is done once is followed by calls without plans",
        PLANNER,
        "once.push_back({candidate, ways, usual.now, ends_s});",
        "once.push_back({candidate, ways, plain.front().now, ends_s});",
    ),
    Mutant(
        "each bucket's chain has its own order",
        ROLLOUT,
        "ways[b].algorithm->uses == Uses::order ? expected_s.back() : expected_s[b];",
        "expected_s[b];",
    ),
    Mutant(
        "each bucket's chain is planned in its own order",
        PLANNER,
        "for (const double arrival_s : forecast.arrivals_s.back())",
        "for (const double arrival_s : forecast.arrivals_s.front())",
    ),
    Mutant(
        "a job has fallen into step after any two iterations",
        ROLLOUT,
        "settled_ = std::abs(iteration_s_ - before_s) <= iteration_s_ / 1024 &&",
        "settled_ = !state_s_.empty() ||",
    ),
    Mutant(
        "what takes long to simulate is never priced",
        PLANNER,
        "const bool nearly_best = margin_ >= 0 &&",
        "const bool nearly_best = margin_ >= 0 ||",
    ),
    Mutant(
        "a change has to pay within the iterations that are looked at",
        "csrc/selection/policy.h",
        "constexpr int horizon = 16;",
        "constexpr int horizon = look_ahead;",
    ),
    Mutant(
        "calls without plans are priced as if they knew who is late",
        PLANNER,
        "segments, false}",
        "segments, true}",
    ),
    Mutant(
        "what plans would have won is forgotten",
        LEADER,
        "loop.guards.missed(iteration, plan->plain_pace_s - plan->pace_s);",
        "loop.guards.missed(iteration, 0);",
    ),
    Mutant(
        "a chain may grow beside other buckets",
        PLANNER,
        "if (candidate->dynamic() && (!doubtful || buckets > 1)) continue;",
        "if (candidate->dynamic() && !doubtful) continue;",
    ),
    Mutant(
        "a plan's order is that of the first forecast like it",
        PLANNER,
        "scale / orders_per_scale);",
        "scale / quanta_per_scale);",
    ),
    Mutant(
        "what was measured of ranks that arrive together counts where one is late, too",
        SELECTOR,
        "if (*first_s == *last_s)\n",
        "if (*first_s <= *last_s)\n",
    ),
    Mutant(
        "rules of calls alone count beside others",
        SELECTOR,
        "by_rule(rules_.beside_others, ",
        "by_rule(rules_.alone, ",
    ),
    Mutant(
        "every call may take another algorithm for next to nothing",
        SELECTOR,
        "constexpr double margin_scales = 0.06;",
        "constexpr double margin_scales = 0;",
    ),
    Mutant(
        "who waits for whom does not matter to a single call",
        PRICE,
        "constexpr double average_weight = 0.1;",
        "constexpr double average_weight = 0;",
    ),
    Mutant(
        "long gaps between arrivals are cut to nothing",
        PATTERN,
        "constexpr double longest_gap_scales = 4;",
        "constexpr double longest_gap_scales = 0.25;",
    ),
    Mutant(
        "a growing chain knows who comes next at once",
        SCHEDULES,
        "begins_s[place] = std::max(begins_s[place], tells_s + 2 * latency_s);",
        "begins_s[place] = std::max(begins_s[place], arrivals_s[place]);",
    ),
    Mutant(
        "a start is never expected after a result",
        PREDICTOR,
        "if (!started_) result_.begin(at_s);",
        "",
    ),
    Mutant(
        "who is silent is not late",
        PREDICTOR,
        "arrival_s = std::max({arrival_s, least_s, now_s});",
        "arrival_s = std::max(arrival_s, now_s);",
    ),
    Mutant(
        "errors are as small as they were at first",
        PREDICTOR,
        "recent = recent < 0 ? square : recent + newest_share * (square - recent);",
        "recent = recent < 0 ? square : std::min(recent, square);",
    ),
    Mutant(
        "an error that all ranks share counts as each one's",
        JOB,
        "const double own = member.error[depth] - closed_[depth].sum / ranks;",
        "const double own = member.error[depth];",
    ),
    Mutant(
        "the best component is always the last value",
        JOB,
        "if (std::isnan(said_s.value[c]) || recent < 0 || recent >= least) continue;",
        "continue;",
    ),
    Mutant(
        "a report that seldom comes is missed",
        EDGES,
        "if (learned.reported <= usual) continue;",
        "if (learned.reported <= 0) continue;",
    ),
    Mutant(
        "one hiccup begins a new phase",
        HISTORY,
        "if (side == outside_) {",
        "if (true) {",
    ),
    Mutant(
        "the newest answer tells the clocks' offset, however long it took",
        "csrc/monitor/clock_offset.cpp",
        "return a.trip_s < b.trip_s;",
        "return &a > &b;",
    ),
    Mutant(
        "what plans do to computations is not looked at",
        GUARD,
        "if (clear()) won_s = std::min(won_s, shorter_s());",
        "",
    ),
    Mutant(
        "shorter iterations count, whatever the overheads",
        GUARD,
        "std::min(won_s, shorter_s())",
        "shorter_s()",
    ),
    Mutant(
        "by chance iterations are shorter",
        GUARD,
        "std::abs(shorter_s()) > deviations * (1 + 1 / degrees) * off_s",
        "std::abs(shorter_s()) > 0 * off_s",
    ),
    Mutant(
        "a pause makes an iteration longer",
        GUARD,
        "const bool pause = iteration_s >= 2 * usual_s;",
        "const bool pause = false;",
    ),
    Mutant(
        "a trial that a pause cut short is judged",
        GUARD,
        "if (!pause) ++tried_;",
        "++tried_;",
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
        "how late the last rank is lags behind who is late",
        GUARD,
        "    for (const double rank_s : lateness_s) last_s = std::max(last_s, rank_s);\n",
        "",
    ),
    Mutant(
        "a trial is compared with the trials before",
        GUARD,
        "const double longer_s = iteration_s - kept_took_s_.mean();",
        "const double longer_s = iteration_s - pace(kept_).iteration_s;",
    ),
    Mutant(
        "what little a believed model promises is as seldom tried as much",
        GUARD,
        "until_trial_ -= credible ? 1 / rarer() : 1",
        "until_trial_ -= credible ? 1 / belief : 1",
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
        "all ranks wait for a plan, whatever it takes",
        PLANNER,
        "const bool may_wait = wait_ <= most_wait_;",
        "const bool may_wait = true;",
    ),
    Mutant(
        "what is known is worked out in every iteration",
        PLANNER,
        "if (!left_ || (left_->usual && !confirms)) return false;",
        "if (!left_) return false;",
    ),
]
